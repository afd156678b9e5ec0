#include "machined/confined/parser/config-text.h"

#include <kj/compat/gzip.h>
#include <kj/debug.h>
#include <string.h>

#include "common/base/error.h"
#include "common/memory/secret-buffer.h"
#include "machined/confined/parser-client/foreign-bytes.h"

namespace talos::parse {

using machined::kMostConfigBytes;

kj::Array<char> unpack(kj::Array<char> body) {
  if (body.size() < 2 || body[0] != '\x1f' || body[1] != '\x8b') return body;
  KJ_DEFER(zeroize(body));
  kj::ArrayInputStream packed(body.asBytes());
  SecretBuffer plain;
  auto broken = kj::runCatchingExceptions([&]() {
    kj::GzipInputStream stream(packed);
    char piece[16384];
    KJ_DEFER(zeroize(kj::arrayPtr(piece, sizeof piece)));
    while (size_t size = stream.tryRead(piece, 1, sizeof(piece))) {
      plain.add(kj::arrayPtr(piece, size));
      KJ_REQUIRE(plain.size() <= kMostConfigBytes, "too large");
    }
  });
  KJ_IF_MAYBE (e, broken) {
    talos::fail(ErrorKind::kInvalidArgument,
                kj::str("cannot unpack the gzip data to at most 4 MiB: ", messageOf(*e)));
  }
  return plain.copy();
}

void requireText(kj::ArrayPtr<const char> body) {
  auto refuse = [](kj::StringPtr what) {
    talos::fail(ErrorKind::kInvalidArgument, kj::str("the server sent ", what, ", not a config"));
  };
  size_t start = body.size() >= 3 && memcmp(body.begin(), "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
  while (start < body.size() && strchr(" \t\r\n", body[start]) != nullptr && body[start] != 0) {
    ++start;
  }
  if (start == body.size()) refuse("empty");
  if (body[start] == '<') refuse("a web page (it begins with \"<\")");
  // UTF-16 is YAML too, and has its mark or a NUL in its first two bytes.
  bool wide = body.size() >= 2 && ((body[0] == '\xff' && body[1] == '\xfe') ||
                                   (body[0] == '\xfe' && body[1] == '\xff'));
  if (!wide && memchr(body.begin(), 0, body.size()) != nullptr) refuse("binary data");
}

}  // namespace talos::parse
