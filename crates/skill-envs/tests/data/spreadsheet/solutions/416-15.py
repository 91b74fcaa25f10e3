from datetime import datetime

import openpyxl

book = openpyxl.load_workbook(INPUT_PATH)
sheet = book["Sheet1"]
for row in range(2, sheet.max_row + 1):
    cell = sheet.cell(row, 1)
    if isinstance(cell.value, str) and "T" in cell.value:
        cell.value = datetime.fromisoformat(cell.value.split("T")[0])
        cell.number_format = sheet["A2"].number_format
book.save(OUTPUT_PATH)
