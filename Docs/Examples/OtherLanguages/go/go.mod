module example.com/pushes

go 1.19
