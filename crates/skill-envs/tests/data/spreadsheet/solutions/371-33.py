import openpyxl

book = openpyxl.load_workbook(INPUT_PATH)
sheet = book["Sheet1"]
for row in range(sheet.max_row, 1, -1):
    if isinstance(sheet.cell(row, 1).value, (int, float)):
        sheet.delete_rows(row)
book.save(OUTPUT_PATH)
