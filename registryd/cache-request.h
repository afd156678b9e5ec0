// A request for something in the cache of images, as containerd sends it to a mirror (the OCI
// distribution specification). Its target is foreign: any process of the node may send it. Pure.
#pragma once

#include <kj/common.h>
#include <kj/string.h>

namespace talos::registryd {

constexpr size_t kLongestTarget = 2048;

struct CacheRequest {
  enum class Kind { kHealth, kBase, kManifest, kBlob };
  Kind kind;
  kj::String path;  // below the folder of the cache; of a manifest or a blob
};

// Reads /healthz, /v2/ and /v2/<name>/{manifests,blobs}/<reference>?ns=<registry>. Returns nullptr
// for any other target, and for one whose parts are no names of images: no path leads out of the
// cache (common/image-cache/cache-layout.h).
kj::Maybe<CacheRequest> readRequest(kj::StringPtr target);

// The bytes of a file to send.
struct SentRange {
  uint64_t begin, end;  // the end is not in it
};
// Reads "bytes=7-" and "bytes=7-9" for a file of `size` bytes. Returns nullptr for any other text
// and for a range that begins after the last byte.
kj::Maybe<SentRange> readRange(kj::StringPtr text, uint64_t size);

// Returns the media type of a manifest or an index, which clients need to read it. The document
// names it, or its fields show it. Throws InvalidArgument if the document is neither.
kj::StringPtr mediaTypeOf(kj::ArrayPtr<const char> manifest);

}  // namespace talos::registryd
