// processes, once or as a screen that refreshes itself
#include <algorithm>

#include "common/base/lines.h"
#include "common/text/size.h"
#include "talosctl/cli/table-look.h"
#include "talosctl/cli/terminal-screen.h"
#include "talosctl/commands/all-commands.h"
#include "talosctl/commands/render-answers.h"

namespace talos::talosctl {

namespace {

using Processes = rpc::Machine::ProcessesResults;

SortBy sortOf(const Invocation& call) {
  return call.text("sort") == "cpu" ? SortBy::kCpu : SortBy::kResident;
}

capnp::RemotePromise<Processes> ask(rpc::Node::Client node) {
  return node.machineRequest().send().getMachine().processesRequest().send();
}

// Returns the command as shown to the user: the arguments, preceded by the full path of the
// program; kernel threads have only a name.
kj::String commandLine(rpc::Process::Reader p) {
  auto executable = p.getExecutable();
  kj::StringPtr arguments = p.getArgs();
  if (executable.size() == 0 && arguments.size() == 0) return kj::str(p.getCommand());
  if (arguments.size() == 0) return kj::str(executable);
  size_t end = arguments.findFirst(' ').orDefault(arguments.size());
  auto first = kj::heapString(arguments.slice(0, end));
  kj::StringPtr base = executable;
  KJ_IF_MAYBE (slash, executable.findLast('/')) {
    base = executable.slice(*slash + 1);
  }
  if (executable.size() > 0 && first == base) return kj::str(executable, arguments.slice(end));
  return kj::str(arguments);
}

// Requests the processes of the nodes every second, and redraws the last answers whenever a key
// changes the view.
class ProcessesWatch {
 public:
  explicit ProcessesWatch(Invocation& call, Session& session)
      : call(call), session(session), sort(sortOf(call)) {
    if (!call.deps.console.drawsOnOut()) return;
    screen.emplace(call.deps, lookOf(call).color ? Colors::kAnsi : Colors::kNone);
  }

  // Runs until `q`.
  kj::Promise<void> run() { return askOn().exclusiveJoin(takeKeys()); }

 private:
  Invocation& call;
  Session& session;
  SortBy sort;
  kj::Maybe<TerminalScreen> screen;
  kj::Maybe<Answers<Processes>> last;

  kj::Promise<void> askOn() {
    for (;;) {
      auto& answers = last.emplace(co_await askAll<Processes>(session, ask));
      draw();
      if (answers.good.size() == 0 && answers.failures.size() > 0) {
        // Ends the command if no node can be reached.
        co_await session.client.connect(session.deadline);
      }
      co_await call.deps.timer.afterDelay(1 * kj::SECONDS);
    }
  }

  kj::Promise<void> takeKeys() {
    KJ_IF_MAYBE (shown, screen) {
      for (;;) {
        for (char key : co_await shown->typed()) {
          if (key == 'q') co_return;
          if (key == 'r' || key == 'm') sort = SortBy::kResident;
          if (key == 'c') sort = SortBy::kCpu;
        }
        draw();
      }
    }
    co_await kj::Promise<void>(kj::NEVER_DONE);
  }

  void draw() {
    KJ_IF_MAYBE (answers, last) {
      auto failures = KJ_MAP(f, answers->failures) {
        return kj::str(describe(f), "\n");
      };
      auto replies = KJ_MAP(a, answers->good) {
        return Reply<Processes>{a.node, a.value};
      };
      auto problems = kj::strArray(failures, ""), table = renderProcesses(replies, sort);
      KJ_IF_MAYBE (shown, screen) {
        drawScreen(*shown, problems, table);
      } else {
        call.err(problems);
        call.out(kj::str(table, "\n"));
      }
    }
  }

  void drawScreen(TerminalScreen& shown, kj::StringPtr problems, kj::StringPtr table) {
    auto& console = call.deps.console;
    Canvas canvas(console.rows(), console.columns());
    size_t row = 0;
    for (auto line : Lines(problems)) canvas.put(row++, 0, kj::heapString(line), Look::kBad);
    auto look = Look::kTitle;
    for (auto line : Lines(table)) {
      canvas.put(row++, 0, kj::heapString(line), look);
      look = Look::kPlain;
    }
    shown.show(kj::mv(canvas));
  }
};

kj::Promise<int> runWatch(Invocation& call) {
  auto session = co_await openSession(call);
  ProcessesWatch watch(call, *session);
  co_await watch.run();
  co_return 0;
}

kj::Promise<int> runProcesses(Invocation& call) {
  bool table = formatOf(call) == Format::kTable;
  if (call.on("watch") && !table)
    failUsage("--watch works with the table only; it cannot be combined with --output");
  if (call.given("sort") && !table)
    failUsage("--sort works with the table only; it cannot be combined with --output");
  if (call.on("watch")) return runWatch(call);
  return tabulate<Processes>(call, ask,
                             [](Invocation& call, kj::ArrayPtr<const Reply<Processes>> replies) {
                               return renderProcesses(replies, sortOf(call));
                             });
}

}  // namespace

kj::String renderProcesses(kj::ArrayPtr<const Reply<Processes>> replies, SortBy sort) {
  struct Row {
    kj::StringPtr node;
    rpc::Process::Reader process;
  };
  std::vector<Row> rows;
  for (auto& r : replies) {
    for (auto p : r.value.getProcesses()) rows.push_back({r.node, p});
  }
  auto weight = [&](const Row& row) {
    return sort == SortBy::kCpu ? row.process.getCpuTimeMs() : row.process.getResidentMemory();
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](auto& a, auto& b) { return weight(a) > weight(b); });
  Table table({"NODE", "PID", "STATE", "THREADS", "CPU-TIME", "VIRTMEM", "RESMEM", "COMMAND"}, 2);
  for (auto& row : rows) {
    auto p = row.process;
    table.add(row.node, p.getPid(), p.getState(), p.getThreads(), fixed(p.getCpuTimeMs(), 1000, 2),
              decimalSize(p.getVirtualMemory()), decimalSize(p.getResidentMemory()),
              commandLine(p));
  }
  return table.render();
}

void addProcessCommands(Command& root) {
  auto& processes = root.add("processes", "List processes");
  processes.aliases = {"p", "ps"};
  processes.flag({.name = "sort",
                  .letter = "s",
                  .kind = FlagKind::kText,
                  .fallback = "rss",
                  .help = "sort by memory or CPU time, largest first",
                  .choices = {"rss", "cpu"}});
  processes.flag(
      {.name = "watch", .letter = "w", .help = "refresh every second, on a terminal in place"});
  processes.details = "Keys with --watch: r or m to sort by memory, c by CPU time, q to quit.";
  addOutputFlag(processes);
  processes.interrupt = Interrupt::kIsSuccess;
  processes.run = runProcesses;
}

}  // namespace talos::talosctl
