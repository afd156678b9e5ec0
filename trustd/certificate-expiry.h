// Which records of issued certificates are kept. Pure.
//
// A record is removed a day after its certificate has expired. Until then it is evidence, which
// whoever has the token must not be able to wash out. So memory is counted for each holder
// (trustd/quota-holder.h): one with more than `perHolder` gets no more certificates, except to
// renew one that it has a record of, and then its older record of the same names and addresses
// makes room: what was signed for whom stays known. When all records together have more than
// `bytes`, those make room that a later one of the same holder, names and addresses has made
// superfluous, of the holder with most first; then the first to end of that holder, if it has more
// than `fair`. What is left is refused.
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
    size_t perHolder = bytes / 4;  // a whole site of machines can be behind one address
    size_t fair = 16u << 10;       // two certificates with all names that one may have
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

  // Why a record of this one cannot be taken. `underWay`: bytes of others that are being written
  // and are not in here yet, of this holder and of all.
  kj::Maybe<kj::String> whyNoRoom(const Record& record, size_t underWayOfHolder,
                                  size_t underWay) const;
  // False for a serial number that is none, and for one that is there already.
  bool add(const Record& record);
  // The next record that is to go, taken out; none as long as all may stay.
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
  using Entries = std::set<Entry>;
  Limits limits;
  Entries entries;  // the first to end first
  size_t total = 0;
  kj::TreeMap<Ip, size_t> perHolder;  // bytes
  // How many there are of each: what is looked for at every renewal in a flood of them.
  std::map<std::pair<Ip, Subject>, unsigned> subjects;

  size_t bytesOf(const Ip& holder) const;
  Entries::const_iterator superseded(kj::Maybe<Ip> holder) const;
  Entries::const_iterator victim() const;
  Record take(Entries::const_iterator entry);
};

}  // namespace talos::trustd
