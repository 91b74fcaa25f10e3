import openpyxl

book = openpyxl.load_workbook(INPUT_PATH)
sheet = book["Sheet1"]
for row in range(2, 101):
    sheet.cell(row, 3).value = f'=IF(OR(A{row}="",B{row}=""),"",MOD(B{row}-TIME(0,30,0),1))'
book.save(OUTPUT_PATH)
