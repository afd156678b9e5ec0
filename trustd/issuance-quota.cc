#include "trustd/issuance-quota.h"

#include <kj/encoding.h>

#include <algorithm>
#include <iterator>

namespace talos::trustd {

kj::Maybe<kj::String> IssuanceQuota::quotaError(const Record& record, size_t underWayOfHolder,
                                                size_t underWay) const {
  auto known = holders.find(record.holder);
  auto mine = (known == holders.end() ? 0 : known->second.bytes) + underWayOfHolder + record.bytes;
  bool full = total + underWay + record.bytes > limits.bytes;
  if (mine <= limits.perHolder && !full) return nullptr;
  // A renewal displaces the older record.
  if (known != holders.end() && known->second.subjects.contains(record.subject)) return nullptr;
  if (mine > limits.perHolder) {
    return kj::str("the records of certificates issued to ", record.holder.toString(),
                   " fill its quota of ", limits.perHolder, " bytes");
  }
  if (victim() == nullptr) {
    return kj::str("the records of certificates fill all ", limits.bytes, " bytes");
  }
  return nullptr;
}

bool IssuanceQuota::add(const Record& record) {
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
  auto& holder = holders[entry.holder];
  holder.entries.insert(entry);
  auto& same = holder.subjects[entry.subject];
  auto place = same.insert(entry).first;
  if (std::next(place) != same.end()) {
    setSuperseded(holder, entry, true);
  } else if (place != same.begin()) {
    setSuperseded(holder, *std::prev(place), true);
  }
  addBytes(entry.holder, holder, entry.bytes);
  return true;
}

// `bytes` may be the two's complement of a number to subtract.
void IssuanceQuota::addBytes(const Ip& address, Holder& holder, size_t bytes) {
  byBytes.erase({holder.bytes, address});
  holder.bytes += bytes;
  total += bytes;
  if (!holder.entries.empty()) byBytes.insert({holder.bytes, address});
}

void IssuanceQuota::setSuperseded(Holder& holder, const Entry& entry, bool is) {
  for (auto index : {&holder.superseded, &superseded}) {
    if (is) {
      index->insert(entry);
    } else {
      index->erase(entry);
    }
  }
}

kj::Maybe<IssuanceQuota::Entry> IssuanceQuota::victim() const {
  if (byBytes.empty()) return nullptr;
  auto& [most, address] = *byBytes.rbegin();
  auto& holder = holders.at(address);
  if (!holder.superseded.empty()) return *holder.superseded.begin();
  if (most > limits.fair) return *holder.entries.begin();
  if (!superseded.empty()) return *superseded.begin();
  return nullptr;
}

IssuanceQuota::Record IssuanceQuota::take(Entry entry) {
  Record record{.serial = kj::encodeHex(kj::arrayPtr(entry.serial.data(), entry.length)),
                .end = kj::UNIX_EPOCH + entry.end * kj::SECONDS,
                .holder = entry.holder,
                .subject = entry.subject,
                .bytes = entry.bytes};
  auto& holder = holders.at(entry.holder);
  entries.erase(entry);
  holder.entries.erase(entry);
  setSuperseded(holder, entry, false);
  auto& same = holder.subjects.at(entry.subject);
  same.erase(entry);
  if (same.empty()) {
    holder.subjects.erase(entry.subject);
  } else {
    setSuperseded(holder, *same.rbegin(), false);  // if the removed entry superseded it
  }
  addBytes(entry.holder, holder, -size_t(entry.bytes));
  if (holder.entries.empty()) holders.erase(entry.holder);
  return record;
}

kj::Maybe<IssuanceQuota::Record> IssuanceQuota::takeDue(kj::Date now) {
  if (entries.empty()) return nullptr;
  auto expired = (now - kKeptAfterEnd - kj::UNIX_EPOCH) / kj::SECONDS;
  if (entries.begin()->end <= expired) return take(*entries.begin());
  for (auto row = byBytes.rbegin(); row != byBytes.rend() && row->first > limits.perHolder; ++row) {
    auto& spare = holders.at(row->second).superseded;
    if (!spare.empty()) return take(*spare.begin());
  }
  if (total > limits.bytes) {
    KJ_IF_MAYBE (found, victim()) {
      return take(*found);
    }
  }
  return nullptr;
}

}  // namespace talos::trustd
