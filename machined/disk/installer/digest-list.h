// The file SHA256SUMS of an installer image: the names of its files and their digests. Pure; the
// bytes are foreign.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::install {

constexpr size_t kMostDigestListBytes = 64u << 10;

class DigestList {
 public:
  // Lines as sha256sum writes them: 64 digits, two spaces, a name. InvalidArgument naming the line.
  explicit DigestList(kj::ArrayPtr<const char> text);
  bool lists(kj::StringPtr name) const;
  // InvalidArgument if the file is not listed, or has another digest.
  void check(kj::StringPtr name, kj::StringPtr digest) const;

 private:
  struct Row {
    kj::String name, digest;
  };
  kj::Vector<Row> rows;
};

// Returns the version that an installer image states, for messages: one line of at most 64 letters,
// digits, dots, dashes, underlines and plus signs. InvalidArgument for anything else.
kj::String imageVersion(kj::ArrayPtr<const char> text);

}  // namespace talos::install
