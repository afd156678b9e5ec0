#include "trustd/certificate-expiry.h"

#include <kj/encoding.h>

#include <algorithm>

namespace talos::trustd {

size_t Expiry::bytesOf(const Ip& holder) const {
  return perHolder.find(holder).map([](const size_t& n) { return n; }).orDefault(0);
}

kj::Maybe<kj::String> Expiry::quotaError(const Record& record, size_t underWayOfHolder,
                                         size_t underWay) const {
  auto mine = bytesOf(record.holder) + underWayOfHolder + record.bytes;
  bool full = total + underWay + record.bytes > limits.bytes;
  if (mine <= limits.perHolder && !full) return nullptr;
  if (subjects.contains({record.holder, record.subject}))
    return nullptr;  // the older record is removed
  if (mine > limits.perHolder) {
    return kj::str("the records of certificates issued to ", record.holder.toString(),
                   " fill its quota of ", limits.perHolder, " bytes");
  }
  if (victim() == entries.end()) {
    return kj::str("the records of certificates fill all ", limits.bytes, " bytes");
  }
  return nullptr;
}

bool Expiry::add(const Record& record) {
  auto bytes = kj::decodeHex(record.serial);
  Entry entry{.end = (record.end - kj::UNIX_EPOCH) / kj::SECONDS,
              .length = bytes.size(),
              .serial = {},
              .holder = record.holder,
              .subject = record.subject,
              .bytes = uint32_t(record.bytes)};
  if (bytes.hadErrors || bytes.size() == 0 || bytes.size() > entry.serial.size()) return false;
  std::copy(bytes.begin(), bytes.end(), entry.serial.begin());
  if (!entries.insert(entry).second) return false;
  total += entry.bytes;
  ++subjects[{entry.holder, entry.subject}];
  perHolder.upsert(entry.holder, entry.bytes, [](size_t& old, size_t more) { old += more; });
  return true;
}

// The first to expire, of this holder or of any, that a later one of the same subject supersedes.
Expiry::Entries::const_iterator Expiry::superseded(kj::Maybe<Ip> holder) const {
  return std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) {
    return entry.holder == holder.orDefault(entry.holder) &&
           subjects.at({entry.holder, entry.subject}) > 1;
  });
}

Expiry::Entries::const_iterator Expiry::victim() const {
  kj::Maybe<Ip> holder;
  size_t most = 0;
  for (auto& row : perHolder) {
    if (row.value <= most) continue;
    most = row.value;
    holder = row.key;
  }
  KJ_IF_MAYBE (h, holder) {
    auto found = superseded(*h);
    if (found != entries.end()) return found;
    if (most > limits.fair) {
      return std::find_if(entries.begin(), entries.end(),
                          [&](const Entry& entry) { return entry.holder == *h; });
    }
  }
  return superseded(nullptr);
}

Expiry::Record Expiry::take(Entries::const_iterator entry) {
  Record record{.serial = kj::encodeHex(kj::arrayPtr(entry->serial.data(), entry->length)),
                .end = kj::UNIX_EPOCH + entry->end * kj::SECONDS,
                .holder = entry->holder,
                .subject = entry->subject,
                .bytes = entry->bytes};
  total -= entry->bytes;
  auto same = subjects.find({entry->holder, entry->subject});
  if (--same->second == 0) subjects.erase(same);
  auto& mine = KJ_ASSERT_NONNULL(perHolder.find(record.holder));
  mine -= entry->bytes;
  if (mine == 0) perHolder.erase(record.holder);
  entries.erase(entry);
  return record;
}

kj::Maybe<Expiry::Record> Expiry::takeDue(kj::Date now) {
  if (entries.empty()) return nullptr;
  auto expired = (now - kKeptAfterEnd - kj::UNIX_EPOCH) / kj::SECONDS;
  if (entries.begin()->end <= expired) return take(entries.begin());
  for (auto& row : perHolder) {
    if (row.value <= limits.perHolder) continue;
    auto found = superseded(row.key);
    if (found != entries.end()) return take(found);
  }
  if (total > limits.bytes) {
    auto found = victim();
    if (found != entries.end()) return take(found);
  }
  return nullptr;
}

}  // namespace talos::trustd
