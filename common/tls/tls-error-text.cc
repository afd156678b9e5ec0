// Apart from tls.cc, so that programs which only format such errors do not link the TLS library.
#include "common/base/error.h"
#include "common/tls/tls.h"

namespace talos {

// Reads OpenSSL's errors in KJ's description: "error:<number>:<library>: <function>:<reason>", one
// a line. The first is the cause; the others are added by the layers above.
kj::String tlsErrorText(const kj::Exception& e) {
  kj::StringPtr text = e.getDescription();
  constexpr kj::StringPtr kMark = "error:"_kj;
  for (size_t i = 0; i + kMark.size() < text.size(); ++i) {
    if (!text.slice(i).startsWith(kMark)) continue;
    auto rest = text.slice(i + kMark.size());
    for (int colons = 0; colons < 3; ++colons) {
      KJ_IF_MAYBE (colon, rest.findFirst(':')) {
        rest = rest.slice(*colon + 1);
      } else {
        return kj::str(text);
      }
    }
    return kj::heapString(rest.slice(0, rest.findFirst('\n').orDefault(rest.size())));
  }
  if (e.getType() == kj::Exception::Type::DISCONNECTED) return kj::str("the peer disconnected");
  return messageOf(e);
}

}  // namespace talos
