import openpyxl

book = openpyxl.load_workbook(INPUT_PATH)
book["Dashboard"]["B8"] = '=TEXT(LEFT(B6,FIND(" ",B6)-1)/LEFT(B5,FIND(" ",B5)-1),"0.00%")&" WIN RATE"'
book.save(OUTPUT_PATH)
