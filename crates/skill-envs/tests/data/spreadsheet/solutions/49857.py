import openpyxl

book = openpyxl.load_workbook(INPUT_PATH)
sheet = book.active
number = 0
for row in range(4, 11):
    is_yes = str(sheet.cell(row, 6).value or "").strip().upper() == "YES"
    number += is_yes
    sheet.cell(row, 7).value = number if is_yes else 0
book.save(OUTPUT_PATH)
