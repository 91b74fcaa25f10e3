import openpyxl

book = openpyxl.load_workbook(INPUT_PATH)
sheet = book["Sheet1"]
for row in range(sheet.max_row, 1, -1):
    if str(sheet.cell(row, 5).value or "").startswith(("Z1", "X1")):
        sheet.delete_rows(row)
book.save(OUTPUT_PATH)
