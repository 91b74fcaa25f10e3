import openpyxl

book = openpyxl.load_workbook(INPUT_PATH)
values = openpyxl.load_workbook(INPUT_PATH, data_only=True).active
sheet = book.active
shares = {}
for row in range(5, 20):
    for column in range(6, values.max_column, 3):
        client, rep = values.cell(row, 3).value, values.cell(row, column).value
        shares[(rep, client)] = values.cell(row, column + 2).value
for row in range(21, 24):
    sheet.cell(row, 4).value = shares[(sheet.cell(row, 2).value, sheet.cell(row, 3).value)]
book.save(OUTPUT_PATH)
