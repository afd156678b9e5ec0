#include "common/text/secret-text.h"

#include <kj/vector.h>

namespace talos {

kj::String withoutSecret(kj::StringPtr text, kj::StringPtr secret) {
  if (secret.size() == 0) return kj::str(text);
  kj::Vector<char> out(text.size() + 1);
  while (text.size() > 0) {
    if (text.startsWith(secret)) {
      out.addAll("***"_kj);
      text = text.slice(secret.size());
    } else {
      out.add(text[0]);
      text = text.slice(1);
    }
  }
  out.add('\0');
  return kj::String(out.releaseAsArray());
}

kj::String withoutHeaderValue(kj::StringPtr text, kj::StringPtr value) {
  auto rest = withoutSecret(text, value);
  KJ_IF_MAYBE (space, value.findFirst(' ')) return withoutSecret(rest, value.slice(*space + 1));
  return rest;
}

}  // namespace talos
