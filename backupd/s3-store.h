// A bucket of a store with the API of S3 (ListObjectsV2, PutObject, DeleteObject of the Amazon S3
// API Reference). Each call opens a connection: there are a few in an hour. Errors are Unavailable
// and contain the store's answer; every call has deadlines.
//
// An upload is one request whose hash is signed, so a store keeps the whole object or nothing.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "common/base/disk-thread.h"

#include "common/net/host-dial.h"

namespace talos::backupd {

// The answers of a store with the API of S3: pages of ListObjectsV2, and errors.
//
// Pure and total over untrusted bytes: InvalidArgument names the error.
constexpr size_t kMostS3Answer = 2u << 20;  // a page has a thousand objects at most

struct S3Page {
  kj::Vector<kj::String> keys;  // in the store's order
  bool more = false;            // the list continues after the last key
};
S3Page readS3Page(kj::ArrayPtr<const char> body);

// Formats an error for a log: "403 Forbidden: SignatureDoesNotMatch: The request signature …",
// without control characters, 300 bytes at most.
kj::String readS3Error(unsigned status, kj::StringPtr statusText, kj::ArrayPtr<const char> body);

struct S3Settings {
  kj::String endpoint;  // https://host:port, checked by common/config
  kj::String bucket, region, accessKey, secretKey;
  kj::String authorities;  // PEM; empty: the image's public CAs
};

struct S3Dependencies {
  DialDependencies dial;
  const kj::Clock& clock;
  DiskQueue& queue;
};

constexpr auto kS3Silence = 60 * kj::SECONDS;  // for an answer, or for sending a piece

struct S3Upload {
  uint64_t size;
  kj::String sha256;  // in hexadecimal
  // Returns the bytes from `at` on, at most `most`; an empty array: the file is cut off.
  kj::Function<kj::Promise<kj::Array<kj::byte>>(uint64_t at, size_t most)> read;
};

class S3Store {
 public:
  virtual ~S3Store() noexcept(false) = default;
  // Returns all names that begin with `prefix`, sorted.
  virtual kj::Promise<kj::Vector<kj::String>> list(kj::StringPtr prefix) = 0;
  // Resolves when the store has the whole object and has checked its hash; before that the store
  // shows nothing of this name, or the previous object. The upload outlives the promise.
  virtual kj::Promise<void> put(kj::StringPtr name, S3Upload& upload) = 0;
  // A missing object is not an error.
  virtual kj::Promise<void> remove(kj::StringPtr name) = 0;
};

kj::Own<S3Store> s3Store(S3Dependencies deps, S3Settings settings);

}  // namespace talos::backupd
