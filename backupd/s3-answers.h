// The answers of a store with the API of S3: pages of ListObjectsV2, and errors.
//
// Pure and total over untrusted bytes: InvalidArgument names the error.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::backupd {

constexpr size_t kMostS3Answer = 2u << 20;  // a page has a thousand objects at most

struct S3Page {
  kj::Vector<kj::String> keys;  // in the store's order
  bool more = false;            // the list continues after the last key
};
S3Page readS3Page(kj::ArrayPtr<const char> body);

// Formats an error for a log: "403 Forbidden: SignatureDoesNotMatch: The request signature …",
// without control characters, 300 bytes at most.
kj::String readS3Error(unsigned status, kj::StringPtr statusText, kj::ArrayPtr<const char> body);

}  // namespace talos::backupd
