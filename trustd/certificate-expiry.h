// The retention of records of issued certificates. Pure.
//
// A record is removed a day after its certificate has expired. Until then it is evidence, which a
// holder of the token must not be able to displace. So memory is counted for each holder
// (trustd/quota-holder.h): one with more than `perHolder` gets no more certificates, except
// renewals, and then its older record of the same names and addresses is removed: the names and
// addresses that were signed for a holder stay on record. When all records together exceed `bytes`,
// records that a later one of the same holder, names and addresses supersedes are removed, of the
// holder with most first; then the first to expire of that holder, if it has more than `fair`.
// Otherwise new certificates are refused.
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

class Expiry {
 public:
  struct Limits {
    // All of them are read at once after a restart, in one message of at most 8 MiB; machined takes
    // 7 MiB of one type. Some 7000 records of one name and one address.
    size_t bytes = 6u << 20;
    size_t perHolder = bytes / 4;  // a whole site of nodes can be behind one address
    size_t fair = 16u << 10;       // two certificates with all names that one may have
    // Of records in progress (issuance-records.h), which may be in the store on top of `bytes`.
    size_t inProgress = bytes / 8, inProgressOfHolder = inProgress / 6;
  };
  Expiry() : Expiry(Limits()) {}
  explicit Expiry(Limits limits) : limits(limits) {}

  using Subject = std::array<kj::byte, 16>;  // a digest of names and addresses
  struct Record {
    kj::String serial;  // hexadecimal, of 16 octets at most
    kj::Date end = kj::UNIX_EPOCH;
    Ip holder;
    Subject subject{};
    size_t bytes = 0;  // in machined's store
  };

  // The error if a record exceeds a quota. `underWay`: bytes of records that are being written and
  // not added yet, of this holder and of all.
  kj::Maybe<kj::String> quotaError(const Record& record, size_t underWayOfHolder,
                                   size_t underWay) const;
  // False for an invalid serial number, and for a duplicate.
  bool add(const Record& record);
  // Removes and returns the next record that has to be deleted; none if all may stay.
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
  using Entries = std::set<Entry>;  // the first to end first
  struct Holder {
    Entries entries;
    Entries superseded;  // of each subject all but the last to end
    std::map<Subject, Entries> subjects;
    size_t bytes = 0;
  };
  Limits limits;
  // Indices of the same records: what to remove next is found in a full book without a search, also
  // while somebody asks for certificates without end.
  Entries entries, superseded;
  std::map<Ip, Holder> holders;
  std::set<std::pair<size_t, Ip>> byBytes;  // of each holder
  size_t total = 0;

  void addBytes(const Ip& address, Holder& holder, size_t bytes);
  void setSuperseded(Holder& holder, const Entry& entry, bool is);
  kj::Maybe<Entry> victim() const;
  Record take(Entry entry);
};

}  // namespace talos::trustd
