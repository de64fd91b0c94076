import joblib

from sksstruct import crfsuite_parameters, make_tagger

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

parameters = crfsuite_parameters(8, c1=0.01, c2=0.1, all_possible_transitions=True)
trained = make_tagger(**parameters, random_state=0).fit(X[:8], y[:8])
joblib.dump(trained, "names.joblib")

tagger = joblib.load("names.joblib")
predicted = [labels.tolist() for labels in tagger.predict(X[8:])]
for labels in predicted:
    print(labels)
weight = tagger.transition_features_["B-PER", "I-PER"]
print("from B-PER to I-PER", round(weight, 1))
