// A table of networkd in the kernel's packet filter (nf_tables): makes its rules match the specs,
// and reports the kernel's rules.
//
// Checks the rules at each change of the specs, and once a minute while the table is wanted, for
// the number of dropped packets and for a table that another program has flushed (`nft flush
// ruleset`). A check that finds the rules writes nothing. The rules exist only in the kernel and
// are replaced in one transaction, so a crash at any line leaves the old or the new rules, and a
// networkd that starts later changes nothing. Until the specs have arrived, the rules stay
// unchanged.
//
// A status exists from before the rules are made until they are removed, so a later networkd knows
// that there may be rules that no spec wants. It names rules only after the kernel has them.
//
// If the kernel has no nf_tables, or refuses the rules, the status reports this as a problem, and
// the log too; the kernel keeps the rules that it has.
#pragma once

#include <kj/function.h>
#include <kj/timer.h>

#include "common/base/signal.h"
#include "networkd/control/network-pace.h"
#include "networkd/plan/network-status.h"
#include "networkd/plan/nft-messages.h"

namespace talos::networkd {

// The tables in the kernel.
class PacketFilter {
 public:
  virtual ~PacketFilter() noexcept(false) = default;
  // Both throw with the kernel's error; rules() throws Unimplemented if the kernel has no
  // nf_tables.
  virtual kj::Vector<FilterRule> rules(kj::StringPtr table) = 0;
  virtual void write(kj::Vector<kj::Array<kj::byte>> transaction) = 0;
};
// Returns the filter of the calling thread's network namespace. Opens its socket at the first call,
// and again after a failure.
kj::Own<PacketFilter> openPacketFilter();

// The state of a table in the kernel.
struct TableStatus {
  bool inEffect = false;  // the kernel has the rules
  uint64_t dropped = 0;   // packets
  kj::String problem;     // why the kernel does not have the rules
};

// A table as the specs want it.
class WantedTable {
 public:
  virtual ~WantedTable() noexcept(false) = default;
  // Returns the rules as the kernel lists them.
  virtual kj::Vector<FilterRule> rules() const = 0;
  // Builds the messages that replace the table.
  virtual kj::Vector<kj::Array<kj::byte>> transaction() const = 0;
  // Returns the number of packets that the rules dropped; `found` is the kernel's list of the same
  // rules.
  virtual uint64_t dropped(kj::ArrayPtr<const FilterRule> found) const = 0;
  // Returns the resources that report the status.
  virtual Records records(const TableStatus& status) const = 0;
  // Logs that the kernel has new rules.
  virtual void logReplaced() const = 0;
};

struct TableSpecs {
  kj::Maybe<kj::Own<WantedTable>> wanted;  // nullptr: the kernel should not have the table
  bool reported = false;                   // A status exists.
};

struct TableTexts {
  kj::StringPtr table;  // name in the kernel
  // Lines of the log.
  kj::StringPtr removed, notReplaced, notReported;
};

struct TableInputs {
  TableTexts texts;
  // Returns nullptr until specs and statuses have arrived.
  kj::Function<kj::Maybe<TableSpecs>()> read;
  kj::Function<kj::Promise<void>(Records)> publish;
};

class PacketTable {
 public:
  static constexpr kj::Duration kPause = 60 * kj::SECONDS;

  // The caller raises `work` when the specs have changed, or have arrived.
  PacketTable(PacketFilter& filter, kj::Timer& timer, Signal& work, TableInputs inputs);

  // Runs until dropped. After a failure, checks again in a second; this pause grows to kPause.
  kj::Promise<void> run();

 private:
  PacketFilter& filter;
  kj::Timer& timer;
  Signal& work;
  TableInputs inputs;
  kj::String logged;  // last problem, logged once

  void replace(kj::Maybe<const WantedTable&> wanted);
  TableStatus ensure(kj::Maybe<const WantedTable&> wanted);
  kj::Promise<bool> report(kj::Maybe<const WantedTable&> wanted, const TableStatus& status);
  kj::Promise<NextCheck> check();
};

}  // namespace talos::networkd
