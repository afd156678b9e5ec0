// logs, dmesg
//
// A followed log survives its connection: the client stores for each node the position after the
// last printed line. After a lost connection (the endpoint or the node's daemons were restarted) it
// requests the log from this position, so no line is lost or printed twice, and reports this on
// stderr. After a reboot of the node the positions are invalid, and its log is shown from the
// start; a log that does not exist yet is waited for.
#include "common/base/backoff.h"
#include "common/base/error.h"
#include "common/text/foreign-text.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/past-time.h"
#include "talosctl/cli/table.h"
#include "talosctl/client/answer-output.h"
#include "talosctl/client/long-calls.h"
#include "talosctl/commands/all-commands.h"

namespace talos::talosctl {

namespace {

// Time after which the client gives up the node.
constexpr kj::Duration kResumeFor = 2 * kj::MINUTES;
// Time that a service has to start after a reboot; the kubelet waits for images and the clock.
constexpr kj::Duration kStartFor = 5 * kj::MINUTES;
constexpr Backoff::Pace kResumePace = {100 * kj::MILLISECONDS, 5 * kj::SECONDS};

// Prints the lines of one node and stores the position.
class LogPrinter final : public rpc::LogSink::Server {
 public:
  LogPrinter(Invocation& call, Format format, kj::StringPtr node, uint64_t& next)
      : call(call), format(format), node(kj::str(node)), next(next) {}

  kj::Promise<void> write(WriteContext context) override {
    auto params = context.getParams();
    auto text = params.getBytes().asChars();
    kj::Vector<kj::String> lines;
    while (text.size() > 0) {
      size_t end = 0;
      while (end < text.size() && text[end] != '\n') ++end;
      auto line = text.slice(0, end);
      lines.add(rendered(line));
      text = text.slice(kj::min(end + 1, text.size()), text.size());
    }
    call.out(kj::strArray(lines, ""));
    next = params.getNext();
    return kj::READY_NOW;
  }

  kj::Promise<void> missed(MissedContext context) override {
    call.err(kj::str(
        node, ": ", context.getParams().getBytes(),
        " bytes of the log are missing here: they were overwritten before they could be sent\n"));
    return kj::READY_NOW;
  }

 private:
  Invocation& call;
  Format format;
  kj::String node;
  uint64_t& next;

  kj::String rendered(kj::ArrayPtr<const char> line) const {
    if (format == Format::kTable) return kj::str(node, ": ", printableText(line), "\n");
    auto message = jsonString(kj::heapString(line));  // JSON is YAML, too
    if (format == Format::kYaml) {
      return kj::str("---\nnode: ", codec::yamlScalar(node), "\nmessage: ", message, "\n");
    }
    return kj::str("{\"node\":", jsonString(node), ",\"message\":", message, "}\n");
  }
};

struct Follow {
  Invocation& call;
  Session& session;
  Format format;
  bool follow;
  bool listed;  // the log is among the services' logs that a node lists
  // Requests the log from a position (0: as the user requested it) into the sink.
  kj::Promise<void> (*request)(Invocation& call, rpc::Node::Client node, uint64_t from,
                               rpc::LogSink::Client sink);
};

bool isLoss(const kj::Exception& e) {
  auto kind = kindOf(e);
  return kind == ErrorKind::kUnavailable || kind == ErrorKind::kDeadlineExceeded;
}

bool isWithin(kj::Timer& timer, const kj::Maybe<kj::TimePoint>& since, kj::Duration time) {
  KJ_IF_MAYBE (start, since) return timer.now() - *start < time;
  return false;
}

// Returns true if `node` has another boot id than `before`.
kj::Promise<bool> rebooted(Session& session, rpc::Node::Client node, kj::StringPtr before) {
  kj::Promise<capnp::Response<rpc::Version>> answer =
      node.machineRequest().send().getMachine().versionRequest().send();
  auto version = co_await within(session.client.deps.timer, session.deadline, kj::mv(answer));
  co_return version.getBootId() != before;
}

// Lists the node's logs on stderr, because scripts match the text of the error itself.
kj::Promise<void> reportLogs(Follow& f, kj::StringPtr name) {
  kj::Promise<capnp::Response<rpc::Logs::ListResults>> answer =
      f.session.client.node(name).logsRequest().send().getLogs().listRequest().send();
  auto list = co_await within(f.call.deps.timer, f.session.deadline, kj::mv(answer));
  auto ids = KJ_MAP(id, list.getIds()) {
    return printableText(id);
  };
  f.call.err(kj::str(name, ": its logs: ", kj::strArray(ids, ", "), "\n"));
}

// Reads one node's log until it ends or the node cannot be reached any more.
kj::Promise<void> readOne(Follow& f, kj::StringPtr name) {
  auto& timer = f.call.deps.timer;
  auto& client = f.session.client;
  uint64_t next = 0;
  Alive alive;
  kj::Maybe<kj::TimePoint> lostAt, rebootedAt;
  bool waiting = false;  // for the log, after a reboot
  Backoff backoff(kResumePace);
  for (;;) {
    kj::Maybe<kj::Exception> failure;
    try {
      co_await client.connect(f.session.deadline);
      auto node = client.node(name);
      if (lostAt != nullptr) {
        if (co_await rebooted(f.session, node, alive.bootId)) {
          next = 0;
          rebootedAt = timer.now();
          waiting = false;
          f.call.err(kj::str(name, ": the node was rebooted; its log starts again\n"));
        } else {
          f.call.err(kj::str(name, ": reconnected; the log continues where it stopped\n"));
        }
        lostAt = nullptr;
        backoff.reset();
      }
      // The node may keep the capability longer than its call.
      LogPrinter printer(f.call, f.format, name, next);
      capnp::RevocableServer<rpc::LogSink> revocable(printer);
      auto stream = f.request(f.call, node, next, revocable.getClient());
      co_await watched(f.session, node, alive, kj::mv(stream));
      co_return;
    } catch (const kj::Exception& e) {
      failure = kj::cp(e);
    }
    auto& e = KJ_ASSERT_NONNULL(failure);
    if (f.follow && kindOf(e) == ErrorKind::kNotFound && isWithin(timer, rebootedAt, kStartFor)) {
      if (!waiting) f.call.err(kj::str(name, ": waiting until the node has the log again\n"));
      waiting = true;
      co_await timer.afterDelay(backoff.next());
      continue;
    }
    if (kindOf(e) == ErrorKind::kNotFound && f.listed) {
      co_await reportLogs(f, name).catch_([](kj::Exception&&) {});  // the error of the log counts
      kj::throwFatalException(kj::mv(e));
    }
    if (!f.follow || !alive.answered || !isLoss(e)) kj::throwFatalException(kj::mv(e));
    KJ_IF_MAYBE (since, lostAt) {
      if (timer.now() - *since > kResumeFor) {
        fail(ErrorKind::kUnavailable, kj::str("gave up after ", durationText(kResumeFor),
                                              " without a connection: ", messageOf(e)));
      }
    } else {
      lostAt = timer.now();
      f.call.err(
          kj::str(name, ": connection lost (", printableText(messageOf(e)), "); retrying\n"));
    }
    co_await timer.afterDelay(backoff.next());
  }
}

kj::Promise<int> readAll(Follow f) {
  auto names = f.session.client.nodes();
  auto waits = kj::heapArrayBuilder<kj::Promise<void>>(names.size());
  size_t good = 0;
  for (auto& name : names) {
    waits.add(readOne(f, name)
                  .then([&good]() { ++good; },
                        [&f, &name](kj::Exception&& e) {
                          streamFailure(f.call, f.format, {kj::str(name), kj::mv(e)}, "ERROR: ");
                        })
                  .eagerlyEvaluate(nullptr));  // the other logs may be followed forever
  }
  co_await kj::joinPromises(waits.finish());
  co_return good > 0 ? 0 : 1;
}

// Selects lines since the time of --since. An age is sent as an age, to be measured by the node's
// clock, because clocks differ.
void setSince(Invocation& call, rpc::LogSince::Builder since) {
  KJ_IF_MAYBE (time, pastTimeOf("since", call.text("since"), call.deps.clock.now())) {
    KJ_SWITCH_ONEOF(*time) {
      KJ_CASE_ONEOF(age, kj::Duration) {
        since.setAge(age / kj::MILLISECONDS);
      }
      KJ_CASE_ONEOF(date, kj::Date) {
        since.setTime((date - kj::UNIX_EPOCH) / kj::NANOSECONDS);
      }
    }
  }
}

kj::Promise<void> requestPrevious(Invocation& call, rpc::Node::Client node,
                                  rpc::LogSink::Client sink) {
  auto request = node.logsRequest().send().getLogs().previousRequest();
  request.setId(call.arguments[0]);
  request.setBoot(call.text("boot"));
  request.setTailLines(int32_t(call.number("tail")));
  request.setContains(call.text("grep"));
  request.setSink(kj::mv(sink));
  return request.send().ignoreResult();
}

kj::Promise<void> requestLog(Invocation& call, rpc::Node::Client node, uint64_t from,
                             rpc::LogSink::Client sink) {
  if (call.on("previous")) return requestPrevious(call, kj::mv(node), kj::mv(sink));
  auto ask = [&](auto request) {
    request.setId(call.arguments[0]);
    request.setFollow(call.on("follow"));
    request.setTailLines(int32_t(call.number("tail")));
    request.setFrom(from);
    request.setContains(call.text("grep"));
    setSince(call, request.initSince());
    request.setSink(kj::mv(sink));
    return request.send().ignoreResult();
  };
  // The kubelet's own log is the log of the service, with and without the flag.
  if (call.on("kubernetes") && call.arguments[0] != "kubelet") {
    return ask(node.containersRequest().send().getContainers().logsRequest());
  }
  return ask(node.logsRequest().send().getLogs().readRequest());
}

kj::Promise<void> requestKernel(Invocation& call, rpc::Node::Client node, uint64_t from,
                                rpc::LogSink::Client sink) {
  auto request = node.logsRequest().send().getLogs().kernelRequest();
  request.setFollow(call.on("follow"));
  request.setOnlyNew(from == 0 && call.on("tail"));
  request.setFromSequence(from);
  request.setContains(call.text("grep"));
  setSince(call, request.initSince());
  request.setSink(kj::mv(sink));
  return request.send().ignoreResult();
}

kj::String renderLogs(Invocation&, kj::ArrayPtr<const Reply<rpc::Logs::ListResults>> replies) {
  Table table({"NODE", "LOG"});
  for (auto& reply : replies) {
    for (auto id : reply.value.getIds()) table.add(reply.node, id);
  }
  return table.render();
}

kj::Promise<int> listLogs(Invocation& call) {
  for (auto flag : {"follow"_kj, "previous"_kj, "kubernetes"_kj}) {
    if (call.on(flag)) failUsage(kj::str("--", flag, " needs the id of a log"));
  }
  for (auto flag : {"tail"_kj, "grep"_kj, "since"_kj, "boot"_kj}) {
    if (call.given(flag)) failUsage(kj::str("--", flag, " needs the id of a log"));
  }
  return tabulate<rpc::Logs::ListResults>(
      call,
      [](rpc::Node::Client node) {
        return node.logsRequest().send().getLogs().listRequest().send();
      },
      renderLogs);
}

kj::Promise<int> runLogs(Invocation& call) {
  if (call.arguments.size() == 0) co_return co_await listLogs(call);
  if (call.on("kubernetes") && call.on("previous")) {
    failUsage(
        "--kubernetes and --previous cannot be combined: the node keeps logs of services only");
  }
  if (call.on("previous") && call.on("follow")) {
    failUsage("--follow and --previous cannot be combined: an earlier boot has no new lines");
  }
  if (call.on("previous") && call.given("since")) {
    failUsage(
        "--since and --previous cannot be combined: lines of an earlier boot are kept without the "
        "times when they came; use --grep");
  }
  // Must be before any call to a node.
  pastTimeOf("since", call.text("since"), call.deps.clock.now());
  if (call.text("boot").size() > 0 && !call.on("previous")) failUsage("--boot needs --previous");
  auto session = co_await openSession(call);
  session->endless = call.on("follow");
  co_return co_await readAll({.call = call,
                              .session = *session,
                              .format = formatOf(call),
                              .follow = call.on("follow"),
                              .listed = !call.on("kubernetes") && !call.on("previous"),
                              .request = requestLog});
}

kj::Promise<int> runDmesg(Invocation& call) {
  pastTimeOf("since", call.text("since"), call.deps.clock.now());
  if (call.on("tail") && !call.on("follow"))
    failUsage("--tail needs --follow: it shows new messages only");
  if (call.on("tail") && call.given("since"))
    failUsage("--since and --tail cannot be combined: --tail shows new messages only");
  auto session = co_await openSession(call);
  session->endless = call.on("follow");
  co_return co_await readAll({.call = call,
                              .session = *session,
                              .format = formatOf(call),
                              .follow = call.on("follow"),
                              .listed = false,
                              .request = requestKernel});
}

void addFilterFlags(Command& command, kj::StringPtr grep) {
  command.flag({.name = "grep", .kind = FlagKind::kText, .help = grep});
  command.flag({.name = "since",
                .kind = FlagKind::kText,
                .help = "only lines that came since: 5m, 2h30m, 1d; 14:05, \"2026-11-20 14:05\", "
                        "2026-11-20T14:05:30Z, today, yesterday"});
}

}  // namespace

void addLogCommands(Command& root) {
  auto& logs = root.add("logs", "Print the log of a service or a container, or list the logs");
  logs.arguments = "[<id>]";
  logs.most = 1;
  logs.details =
      "Without an id it lists the logs of services. The id is that of a service, or \"machined\", "
      "\"controller-runtime\" or \"audit\"; with "
      "--previous also \"kernel-last-words\", the kernel's messages before a crash.";
  logs.flag({.name = "follow", .letter = "f", .help = "follow the log"});
  logs.flag({.name = "tail",
             .kind = FlagKind::kNumber,
             .fallback = "-1",
             .help = "show only this many of the last lines; -1 for all"});
  addFilterFlags(logs, "only lines with this text; --tail counts those");
  logs.flag({.name = "previous",
             .letter = "p",
             .help = "the log of the previous boot, from the node's disk"});
  logs.flag({.name = "boot",
             .kind = FlagKind::kText,
             .help = "with --previous: of the boot with this id (talosctl get bootrecords)"});
  logs.flag({.name = "kubernetes",
             .letter = "k",
             .help = "a container of a pod; the id is namespace/pod:container"});
  logs.flag({.name = "use-cri", .letter = "c", .help = "has no effect", .hidden = true});
  addOutputFlag(logs);
  logs.interrupt = Interrupt::kIsSuccess;
  logs.run = runLogs;

  auto& dmesg = root.add("dmesg", "Print the kernel log");
  dmesg.flag({.name = "follow", .letter = "f", .help = "follow the log"});
  dmesg.flag({.name = "tail", .help = "with --follow: show only new messages"});
  addFilterFlags(dmesg, "only messages with this text");
  addOutputFlag(dmesg);
  dmesg.interrupt = Interrupt::kIsSuccess;
  dmesg.run = runDmesg;
}

}  // namespace talos::talosctl
