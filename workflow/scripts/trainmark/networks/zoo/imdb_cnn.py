"""The convolutional network of the recipe imdb-cnn."""

from trainmark.networks.graph import Architecture, Graph
from trainmark.networks.ops import Shape

VOCABULARY = 5000


def imdb_cnn(input_shape: Shape, classes: int) -> Architecture:
    """One convolution over word vectors and a hidden layer (keras `examples/imdb_cnn.py`).

    With two classes it has one logit, like the original with its sigmoid. The second dropout is before the ReLU.
    """
    graph = Graph(input_shape)
    graph.add("embedding", "Embedding", vocabulary=VOCABULARY, units=50)
    graph.add("dropout1", "Dropout", rate=0.2)
    graph.add("conv1", "Conv1D", filters=250, size=3)
    graph.add("relu1", "ReLU")
    graph.add("pool1", "GlobalMaxPool1D")
    graph.add("dense1", "Dense", units=250)
    graph.add("dropout2", "Dropout", rate=0.2)
    graph.add("relu2", "ReLU")
    graph.add("dense2", "Dense", units=1 if classes == 2 else classes)
    if classes == 2:
        graph.add("logits", "BinaryLogits")
    return graph.architecture("imdb-cnn")
