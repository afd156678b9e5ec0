#include "trustd/certificate-expiry.h"

#include <kj/encoding.h>

#include <algorithm>

namespace talos::trustd {

bool Expiry::add(kj::StringPtr serial, kj::Date end) {
  auto bytes = kj::decodeHex(serial);
  Entry entry{(end - kj::UNIX_EPOCH) / kj::SECONDS, bytes.size(), {}};
  if (bytes.hadErrors || bytes.size() == 0 || bytes.size() > entry.serial.size()) return false;
  std::copy(bytes.begin(), bytes.end(), entry.serial.begin());
  return entries.insert(entry).second;
}

kj::Maybe<Expiry::Due> Expiry::takeDue(kj::Date now) {
  if (entries.empty()) return nullptr;
  auto& first = *entries.begin();
  auto over = (now - kKeptAfterEnd - kj::UNIX_EPOCH) / kj::SECONDS;
  if (entries.size() <= most && first.end > over) return nullptr;
  Due due{kj::encodeHex(kj::arrayPtr(first.serial.data(), first.length)),
          kj::UNIX_EPOCH + first.end * kj::SECONDS};
  entries.erase(entries.begin());
  return kj::mv(due);
}

}  // namespace talos::trustd
