"""Files on a mirror that is a folder, made by the tests."""

import hashlib
import io
import json
import tarfile

WORDS = {word: rank for rank, word in enumerate(["the", "film", "was", "great", "bad"], 1)}


def tar(files, mode="w:gz"):
    """A tar of {name: content}."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def on_mirror(folder, dataset, name, content):
    """Put a file onto the mirror; return its part of the entry."""
    put(folder / "mirror" / dataset / name, content)
    return {"name": name, "sha256": hashlib.sha256(content).hexdigest(), "urls": [], "bytes": len(content)}


def reviews_on_mirror(folder, text, count, **entry):
    """Put `count` good and as many bad reviews of each split onto the mirror; return the entry of the dataset `texts`.

    text: of a review, with a place for its word.
    """
    reviews = {
        f"aclImdb/{split}/{kind}/{number}_9.txt": text.format(word).encode()
        for split in ("train", "test")
        for kind, word in (("pos", "great"), ("neg", "bad"))
        for number in range(count)
    }
    files = {"reviews.tar.gz": tar(reviews), "words.json": json.dumps(WORDS).encode()}
    return {
        "title": "Texts", "format": "reviews", "classes": 2, "samples": {"train": 2 * count, "test": 2 * count},
        "files": [on_mirror(folder, "texts", name, content) for name, content in files.items()], **entry,
    }  # fmt: skip
