svm_multiclass_learn -c 5000 train.dat model.dat
svm_multiclass_classify test.dat model.dat predictions.txt
