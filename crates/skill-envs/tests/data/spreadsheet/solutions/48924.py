from datetime import timedelta

import openpyxl

book = openpyxl.load_workbook(INPUT_PATH)
sheet = book.active
days = [sheet.cell(row, 1).value for row in range(2, sheet.max_row + 1)]
days = {day for day in days if day is not None}
row, day = 2, min(days)
while day <= max(days):
    if day not in days:
        sheet.cell(row, 3).value = day
        row += 1
    day += timedelta(days=1)
book.save(OUTPUT_PATH)
