#include "networkd/control/packet-table.h"

#include <kj/debug.h>
#include <linux/netlink.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/netlink/netlink-socket.h"
#include "common/wire/store-adapter.h"

namespace talos::networkd {

// --- the kernel
namespace {

constexpr auto kFilterDeadline = 5 * kj::SECONDS;  // of the kernel's answer
constexpr kj::Duration kFirstFilterPause = 1 * kj::SECONDS;

class KernelFilter final : public PacketFilter {
 public:
  kj::Vector<FilterRule> rules(kj::StringPtr table) override;
  void write(kj::Vector<kj::Array<kj::byte>> transaction) override;

 private:
  kj::Maybe<netlink::Socket> open;

  netlink::Socket& socket();
};

netlink::Socket& KernelFilter::socket() {
  KJ_IF_MAYBE (there, open) return *there;
  return open.emplace(NETLINK_NETFILTER, kFilterDeadline);
}

kj::Vector<FilterRule> KernelFilter::rules(kj::StringPtr table) {
  kj::Vector<FilterRule> found;
  // A kernel without netfilter refuses such sockets; a kernel without nf_tables refuses the
  // request.
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                 for (auto& message :
                      socket().dump(encodeRuleDump(table), "list rules of nf_tables")) {
                   KJ_IF_MAYBE (part, message.body.tryGet<netlink::Generic>()) {
                     KJ_IF_MAYBE (rule, readRule(*part, table)) found.add(kj::mv(*rule));
                   }
                 }
               })) {
    if (kindOf(*e) == ErrorKind::kUnavailable) kj::throwFatalException(kj::mv(*e));
    fail(ErrorKind::kUnimplemented, kj::str("the kernel has no nf_tables: ", messageOf(*e)));
  }
  return found;
}

void KernelFilter::write(kj::Vector<kj::Array<kj::byte>> transaction) {
  for (auto& ack : socket().transactAtOnce(transaction)) {
    if (ack.code == 0) continue;
    fail(ErrorKind::kFailedPrecondition,
         kj::str("the kernel refused rules of nf_tables: ", ack.message,
                 ack.message.size() > 0 ? ": " : "", strerror(ack.code)));
  }
}

}  // namespace

kj::Own<PacketFilter> openPacketFilter() {
  return kj::heap<KernelFilter>();
}

// --- the loop
PacketTable::PacketTable(PacketFilter& filter, kj::Timer& timer, Signal& work, TableInputs inputs)
    : filter(filter), timer(timer), work(work), inputs(kj::mv(inputs)) {}

kj::Promise<void> PacketTable::run() {
  CheckPace pace(timer, kFirstFilterPause, kPause);
  for (;;) {
    auto change = work.wait();  // before the check, so that no change is missed
    auto next = co_await check();
    co_await pace.due(next, kj::mv(change));
  }
}

void PacketTable::replace(kj::Maybe<const WantedTable&> wanted) {
  KJ_IF_MAYBE (table, wanted) {
    filter.write(table->transaction());
    table->logReplaced();
  } else {
    filter.write(TableBatch(inputs.texts.table).finish());
    log::info(inputs.texts.removed);
  }
}

// Replaces the kernel's rules if they are not the wanted ones.
TableStatus PacketTable::ensure(kj::Maybe<const WantedTable&> wanted) {
  TableStatus status;
  kj::Vector<FilterRule> listed;
  KJ_IF_MAYBE (table, wanted) listed = table->rules();
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                 auto found = filter.rules(inputs.texts.table);
                 // A table that was flushed has chains and no rules.
                 if (wanted == nullptr || !sameRules(found, listed)) {
                   replace(wanted);
                   found = filter.rules(inputs.texts.table);
                   if (!sameRules(found, listed)) {
                     fail(ErrorKind::kInternal, "the kernel lists other rules than it was given");
                   }
                 }
                 KJ_IF_MAYBE (table, wanted) status.dropped = table->dropped(found);
               })) {
    // Without nf_tables there are no rules to remove.
    if (wanted != nullptr || kindOf(*e) != ErrorKind::kUnimplemented) {
      status.problem = messageOf(*e);
    }
  }
  status.inEffect = status.problem.size() == 0;
  if (!status.inEffect && status.problem != logged) {
    log::error(inputs.texts.notReplaced, {{"error", status.problem}});
  }
  logged = kj::str(status.problem);
  return status;
}

// Returns false if the report has to be repeated.
kj::Promise<bool> PacketTable::report(kj::Maybe<const WantedTable&> wanted,
                                      const TableStatus& status) {
  Records records;
  KJ_IF_MAYBE (table, wanted) records = table->records(status);
  auto failure = co_await errorOf(
      [&] { return timer.timeoutAfter(kPublishDeadline, inputs.publish(kj::mv(records))); });
  KJ_IF_MAYBE (error, failure) {
    log::warn(inputs.texts.notReported, {{"error", *error}});
    co_return false;
  }
  co_return true;
}

kj::Promise<NextCheck> PacketTable::check() {
  auto found = inputs.read();
  if (found == nullptr) co_return NextCheck::kAtChange;
  auto& specs = KJ_ASSERT_NONNULL(found);
  auto wanted = [&]() -> kj::Maybe<const WantedTable&> {
    KJ_IF_MAYBE (table, specs.wanted) return **table;
    return nullptr;
  }();
  // A status that exists before the rules do makes a later networkd remove them.
  if (!specs.reported) {
    if (wanted == nullptr) co_return NextCheck::kAtChange;
    if (!co_await report(wanted, {})) co_return NextCheck::kSoon;
  }
  auto status = ensure(wanted);
  // The status stays if its rules could not be removed.
  if (wanted == nullptr && !status.inEffect) co_return NextCheck::kSoon;
  if (!co_await report(wanted, status) || !status.inEffect) co_return NextCheck::kSoon;
  co_return wanted == nullptr ? NextCheck::kAtChange : NextCheck::kAfterPause;
}

}  // namespace talos::networkd
