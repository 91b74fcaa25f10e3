import openpyxl

book = openpyxl.load_workbook(INPUT_PATH)
sheet = book["Main Sheet"]
for row in range(2, 7):
    sheet.cell(row, 5).value = f"=VLOOKUP(D{row},Data!$A$1:$B$4,2,FALSE)"
book.save(OUTPUT_PATH)
