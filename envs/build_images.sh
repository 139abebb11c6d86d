#!/bin/sh
# Builds the image of each environment named in the command line, and writes envs/images.yaml (docs/environments.md).
# REGISTRY=host/folder pushes them there; without it apptainer makes a file of each. BASE= names another base image,
# ENGINE=docker another program.
set -eu
cd "$(dirname "$0")/.."
engine=${ENGINE:-podman}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p envs/images
for name; do
  tag=${REGISTRY:-localhost}/trainmark-$name
  "$engine" build ${BASE:+--build-arg "BASE=$BASE"} --build-arg "ENVIRONMENT=$name" --tag "$tag" --file envs/Dockerfile .
  if [ -z "${REGISTRY:-}" ]; then
    "$engine" save --output "$scratch/image.tar" "$tag"
    apptainer build --force "$scratch/image.sif" "docker-archive:$scratch/image.tar"
    image=images/trainmark-$name-sha256-$(sha256sum "$scratch/image.sif" | cut -d ' ' -f 1).sif
    mv "$scratch/image.sif" "envs/$image"
    rm "$scratch/image.tar"
  elif [ "$engine" = podman ]; then
    podman push --digestfile "$scratch/digest" "$tag"
    image=docker://$tag@$(cat "$scratch/digest")
  else
    "$engine" push "$tag"
    image=docker://$("$engine" inspect --format '{{index .RepoDigests 0}}' "$tag")
  fi
  touch envs/images.yaml
  sed "/^$name:/d" envs/images.yaml > "$scratch/images.yaml"
  echo "$name: $image" >> "$scratch/images.yaml"
  cp "$scratch/images.yaml" envs/images.yaml
done
cat envs/images.yaml
