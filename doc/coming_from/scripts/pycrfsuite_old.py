import pycrfsuite

with open("names.txt") as file:
    lines = [line.split() for line in file]
sentences = [[pair.rsplit("/", 1) for pair in line] for line in lines]


def describe(words, i):
    features = ["bias", "word=" + words[i].lower(), "suffix=" + words[i][-3:]]
    if words[i].istitle():
        features.append("title")
    features.append("before=" + words[i - 1].lower() if i > 0 else "BOS")
    return features


X = [
    [describe([word for word, _ in sentence], i) for i in range(len(sentence))]
    for sentence in sentences
]
y = [[label for _, label in sentence] for sentence in sentences]

trainer = pycrfsuite.Trainer(verbose=False)
for features, labels in zip(X[:8], y[:8], strict=True):
    trainer.append(features, labels)
trainer.set_params({"c1": 0.01, "c2": 0.1, "feature.possible_transitions": True})
trainer.train("names.crfsuite")

tagger = pycrfsuite.Tagger()
tagger.open("names.crfsuite")
predicted = [tagger.tag(features) for features in X[8:]]
for labels in predicted:
    print(labels)
weight = tagger.info().transitions["B-PER", "I-PER"]
print("from B-PER to I-PER", round(weight, 1))
