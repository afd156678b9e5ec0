// A bucket of a store with the API of S3 (ListObjectsV2, PutObject, DeleteObject of the Amazon S3
// API Reference). Each call has a connection of its own: there are a few in an hour.
//
// An upload is one request whose hash is signed, so a store keeps all of it or nothing.
#pragma once

#include "common/kube/host-dial.h"
#include "etcd-supervisor/backup/object-store.h"

namespace talos::supervisor {

struct S3Settings {
  kj::String endpoint;  // https://host:port, checked by common/config
  kj::String bucket, region, accessKey, secretKey;
  kj::String authorities;  // PEM; empty: the public ones of the image
};

struct S3Dependencies {
  kube::DialDependencies dial;
  const kj::Clock& clock;
  DiskQueue& queue;
};

constexpr auto kS3Silence = 60 * kj::SECONDS;  // of an answer, or of a piece that is sent

kj::Own<ObjectStore> s3Store(S3Dependencies deps, S3Settings settings);

}  // namespace talos::supervisor
