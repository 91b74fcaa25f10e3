import openpyxl

book = openpyxl.load_workbook(INPUT_PATH)
book.active["F8"] = "=ROUND(C8*(1-E8),2)"
book.save(OUTPUT_PATH)
