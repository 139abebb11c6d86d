"""Files on a mirror that is a folder, made by the tests."""

import hashlib
import io
import tarfile


def tar(files):
    """A gzip-compressed tar."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
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
