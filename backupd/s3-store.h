// A bucket of a store with the API of S3 (ListObjectsV2, PutObject, DeleteObject of the Amazon S3
// API Reference). Each call has a connection of its own: there are a few in an hour. Errors are
// Unavailable and say what the store answered; every call has deadlines of its own.
//
// An upload is one request whose hash is signed, so a store keeps all of it or nothing.
#pragma once

#include "common/base/disk-thread.h"
#include "common/kube/host-dial.h"

namespace talos::backupd {

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

struct S3Upload {
  uint64_t size;
  kj::String sha256;  // in hexadecimal
  // The bytes from `at` on, so many at most; none: it is cut off.
  kj::Function<kj::Promise<kj::Array<kj::byte>>(uint64_t at, size_t most)> read;
};

class S3Store {
 public:
  virtual ~S3Store() noexcept(false) = default;
  // All names that begin with `prefix`, sorted.
  virtual kj::Promise<kj::Vector<kj::String>> list(kj::StringPtr prefix) = 0;
  // The store has all of it, and has checked its hash, when this resolves; before that it shows
  // nothing of that name, or what it had. The upload outlives the promise.
  virtual kj::Promise<void> put(kj::StringPtr name, S3Upload& upload) = 0;
  // Absent is fine.
  virtual kj::Promise<void> remove(kj::StringPtr name) = 0;
};

kj::Own<S3Store> s3Store(S3Dependencies deps, S3Settings settings);

}  // namespace talos::backupd
