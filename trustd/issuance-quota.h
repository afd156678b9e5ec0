// The retention of records of issued certificates. Pure.
//
// A record is removed a day after its certificate has expired. Until then it is evidence, which a
// holder of the token must not be able to displace. So memory is counted for each holder
// (trustd/quota-holder.h). A holder with more than `perHolder` gets no more certificates, except
// renewals, which remove its older record of the same names and addresses: the names and addresses
// that were signed for a holder stay on record. When all records together exceed `bytes`, records
// that a later one of the same holder, names and addresses supersedes are removed, first those of
// the holder with most; then the first to expire of that holder, if it has more than `fair`; then
// superseded records of other holders. Otherwise new certificates are refused.
#pragma once

#include <kj/map.h>
#include <kj/string.h>
#include <kj/time.h>

#include <array>
#include <map>
#include <set>
#include <utility>

#include "trustd/quota-holder.h"

namespace talos::trustd {

constexpr auto kKeptAfterEnd = 24 * kj::HOURS;

class IssuanceQuota {
 public:
  struct Limits {
    // After a restart all records are read at once, in one message of at most 8 MiB; machined
    // accepts 7 MiB of one type. The limit holds some 7000 records of one name and one address.
    size_t bytes = 6u << 20;
    size_t perHolder = bytes / 4;  // one address may stand for a whole site of nodes
    size_t fair = 16u << 10;       // two certificates with the most names
    // Limits of records in progress (issuance-records.h), which the store may have on top of
    // `bytes`.
    size_t inProgress = bytes / 8, inProgressOfHolder = inProgress / 6;
  };
  IssuanceQuota() : IssuanceQuota(Limits()) {}
  explicit IssuanceQuota(Limits limits) : limits(limits) {}

  using Subject = std::array<kj::byte, 16>;  // a digest of names and addresses
  struct Record {
    kj::String serial;  // hexadecimal, at most 16 octets
    kj::Date end = kj::UNIX_EPOCH;
    Ip holder;
    Subject subject{};
    size_t bytes = 0;  // in machined's store
  };

  // Returns the error if a record exceeds a quota. `underWay`: bytes of records that are being
  // written and not added yet, for this holder and for all.
  kj::Maybe<kj::String> quotaError(const Record& record, size_t underWayOfHolder,
                                   size_t underWay) const;
  // Returns false for an invalid serial number, and for a duplicate.
  bool add(const Record& record);
  // Removes and returns the next record that has to be deleted; nullptr if all may stay.
  kj::Maybe<Record> takeDue(kj::Date now);
  size_t size() const { return entries.size(); }

 private:
  struct Entry {
    int64_t end;  // s since 1970
    size_t length;
    std::array<kj::byte, 16> serial;
    Ip holder;
    Subject subject;
    uint32_t bytes;
    auto operator<=>(const Entry& other) const = default;
  };
  using Entries = std::set<Entry>;  // ordered by expiry
  struct Holder {
    Entries entries;
    Entries superseded;  // for each subject all but the last to expire
    std::map<Subject, Entries> subjects;
    size_t bytes = 0;
  };
  Limits limits;
  // Indices of the same records: the next record to remove is found without a search even if the
  // memory is full and a caller requests certificates without end.
  Entries entries, superseded;
  std::map<Ip, Holder> holders;
  std::set<std::pair<size_t, Ip>> byBytes;  // of all holders
  size_t total = 0;

  void addBytes(const Ip& address, Holder& holder, size_t bytes);
  void setSuperseded(Holder& holder, const Entry& entry, bool is);
  kj::Maybe<Entry> victim() const;
  Record take(Entry entry);
};

}  // namespace talos::trustd
