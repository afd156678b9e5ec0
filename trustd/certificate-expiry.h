// Which records of issued certificates are kept. Pure.
//
// A record is removed a day after its certificate has expired; when there are more than `most`,
// those that expire first are removed earlier. In memory a record is a serial number and a date.
#pragma once

#include <kj/string.h>
#include <kj/time.h>

#include <array>
#include <set>

namespace talos::trustd {

constexpr auto kKeptAfterEnd = 24 * kj::HOURS;
constexpr size_t kMostRecords = 10'000;

class Expiry {
 public:
  explicit Expiry(size_t most = kMostRecords) : most(most) {}

  // A serial number is hexadecimal, of 16 octets at most. False for other texts, and for one that
  // is there already.
  bool add(kj::StringPtr serial, kj::Date end);
  struct Due {
    kj::String serial;
    kj::Date end;
  };
  // The next record that is to go, taken out; none as long as all may stay.
  kj::Maybe<Due> takeDue(kj::Date now);
  size_t size() const { return entries.size(); }

 private:
  struct Entry {
    int64_t end;  // s since 1970
    size_t length;
    std::array<kj::byte, 16> serial;
    auto operator<=>(const Entry& other) const = default;
  };
  size_t most;
  std::set<Entry> entries;
};

}  // namespace talos::trustd
