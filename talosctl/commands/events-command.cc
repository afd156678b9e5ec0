// events
#include "talosctl/client/long-calls.h"
#include "talosctl/commands/all-commands.h"
#include "talosctl/views/event-row.h"

namespace talos::talosctl {

namespace {

class EventPrinter final : public rpc::EventSink::Server {
 public:
  EventPrinter(Invocation& call, Format format, Table& table, kj::StringPtr node)
      : call(call), format(format), table(table), node(kj::str(node)) {}

  kj::Promise<void> events(EventsContext context) override {
    for (auto event : context.getParams().getEvents()) {
      if (format != Format::kTable) {
        streamRecord(call, format, node, dynamic<rpc::Event>(event));
      } else KJ_IF_MAYBE (row, eventRow(node, event)) {
        table.row(kj::mv(*row));
        call.out(table.render());
      }
    }
    return kj::READY_NOW;
  }
  kj::Promise<void> missed(MissedContext context) override {
    call.err(kj::str(node, ": ", context.getParams().getCount(),
                     " events are missing: they were overwritten before they could be sent\n"));
    return kj::READY_NOW;
  }

 private:
  Invocation& call;
  Format format;
  Table& table;
  kj::String node;
};

void fillTail(const Invocation& call, rpc::Tail::Builder tail) {
  auto last = call.number("tail");
  auto seconds = (call.duration("duration") + kj::SECONDS - kj::NANOSECONDS) / kj::SECONDS;
  auto after = call.text("since");
  if ((last != 0) + (seconds != 0) + (after.size() > 0) > 1) {
    failUsage("only one of the flags --tail, --duration and --since can be given");
  }
  if (call.on("previous") && (last != 0) + (seconds != 0) + (after.size() > 0) > 0) {
    failUsage("--previous cannot be combined with --tail, --duration or --since");
  }
  if (call.on("once") && last == 0 && seconds == 0 && after.size() == 0) {
    failUsage("--once needs --tail, --duration or --since: it shows past events only");
  }
  if (call.text("boot").size() > 0 && !call.on("previous")) failUsage("--boot needs --previous");
  if (last != 0) tail.setLast(int32_t(kj::max(last, int64_t(-1))));
  if (seconds != 0) tail.setSeconds(uint64_t(seconds));
  if (after.size() > 0) tail.setAfter(after);
}

kj::Promise<int> runEvents(Invocation& call) {
  capnp::MallocMessageBuilder message;
  auto tail = message.initRoot<rpc::Tail>();
  fillTail(call, tail);
  auto format = formatOf(call);
  Table table({"NODE", "ID", "TIME", "EVENT", "SOURCE", "MESSAGE"});
  auto session = co_await openSession(call);
  session->endless = !call.on("once") && !call.on("previous");
  co_return co_await streamAll(
      call, *session, format, [&](kj::StringPtr name, rpc::Node::Client node) -> kj::Promise<void> {
        if (call.on("previous")) {
          auto earlier = node.eventsRequest().send().getEvents().previousRequest();
          earlier.setBoot(call.text("boot"));
          earlier.setSink(kj::heap<EventPrinter>(call, format, table, name));
          return earlier.send().ignoreResult();
        }
        auto request = node.eventsRequest().send().getEvents().watchRequest();
        request.setTail(tail);
        request.setOnce(call.on("once"));
        request.setSink(kj::heap<EventPrinter>(call, format, table, name));
        return request.send().ignoreResult();
      });
}

}  // namespace

void addEventCommands(Command& root) {
  auto& events = root.add("events", "Show events of the nodes until interrupted");
  events.flag({.name = "tail",
               .kind = FlagKind::kNumber,
               .fallback = "0",
               .help = "start with this many past events; -1 for all"});
  events.flag({.name = "duration",
               .kind = FlagKind::kDuration,
               .help = "start with the events of this period, such as 5m or 1h"});
  events.flag({.name = "once", .help = "exit after the past events"});
  events.flag({.name = "previous", .help = "show the events of the previous boot, and exit"});
  events.flag({.name = "boot",
               .kind = FlagKind::kText,
               .help = "with --previous: of the boot with this id (talosctl get bootrecords)"});
  events.flag(
      {.name = "since", .kind = FlagKind::kText, .help = "start after the event with this id"});
  addOutputFlag(events);
  events.interrupt = Interrupt::kIsSuccess;
  events.run = runEvents;
}

}  // namespace talos::talosctl
