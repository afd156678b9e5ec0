// debug stack <service>, debug profile <service>
#include <map>
#include <string>

#include "common/base/error.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/client/answer-output.h"
#include "talosctl/debug/crash-text.h"
#include "talosctl/debug/debug-commands.h"
#include "talosctl/debug/symbol-files.h"

namespace talos::talosctl {
namespace {

constexpr auto kBetween = 20 * kj::MILLISECONDS;  // time between two samples

using Looked = rpc::Services::StackResults;

capnp::RemotePromise<Looked> ask(rpc::Node::Client node, kj::StringPtr service) {
  auto request = node.servicesRequest().send().getServices().stackRequest();
  request.setId(service);
  return request.send();
}

kj::Maybe<const crash::SymbolTable&> tableOf(const kj::Maybe<crash::SymbolTable>& symbols) {
  KJ_IF_MAYBE (table, symbols) return *table;
  return nullptr;
}

kj::String sinceText(uint64_t ms) {
  constexpr uint64_t kSeconds = 10'000;  // longer times are shown in seconds
  if (ms < kSeconds) return kj::str(ms, "ms");
  return durationText(ms / 1000 * kj::SECONDS);
}

kj::String textOf(kj::StringPtr node, kj::StringPtr service, rpc::ProgramStack::Reader stack,
                  kj::Maybe<const crash::SymbolTable&> symbols) {
  kj::Vector<kj::String> lines;
  lines.add(kj::str("Node:      ", node));
  lines.add(kj::str("Service:   ", service));
  lines.add(kj::str("Program:   ", printable(stack.getProgram()), ", build id ",
                    printable(stack.getBuildId())));
  lines.add(kj::str("Process:   ", stack.getPid()));
  lines.add(kj::str("Under way:"));
  for (auto wait : stack.getWaits()) {
    lines.add(kj::str("  since ", sinceText(wait.getSinceMs()), ": ", printable(wait.getText())));
  }
  lines.add(kj::str("Stack:"));
  for (auto frame : stack.getFrames()) {
    lines.add(kj::str("  ", printable(describeFrame(frame, symbols))));
  }
  return kj::str(kj::strArray(lines, "\n"), "\n");
}

void addNames(rpc::ProgramStack::Builder stack, const crash::SymbolTable& table) {
  auto frames = stack.getFrames();
  for (unsigned i = 0; i < frames.size(); ++i) {
    frames.set(i, describeFrame(frames.asReader()[i], table));
  }
}

kj::Promise<int> runStack(Invocation& call) {
  kj::StringPtr service = call.arguments[0];
  auto session = co_await openSession(call);
  auto answers = co_await askAll<Looked>(
      *session, [service](rpc::Node::Client node) { return ask(kj::mv(node), service); });
  auto format = formatOf(call);
  Documents documents(call, format);
  for (auto& answer : answers.good) {
    auto stack = answer.value.getStack();
    auto symbols = symbolsOf(call, stack.getBuildId());
    if (format == Format::kTable) {
      call.outBytes(textOf(answer.node, service, stack, tableOf(symbols)));
      continue;
    }
    capnp::MallocMessageBuilder message;
    message.setRoot(stack);
    auto named = message.getRoot<rpc::ProgramStack>();
    KJ_IF_MAYBE (table, symbols) addNames(named, *table);
    documents.answer(answer.node, dynamic<rpc::ProgramStack>(named.asReader()));
  }
  for (auto& failure : answers.failures) {
    if (format != Format::kTable) documents.failure(failure);
  }
  co_return conclude(call, answers.failures, answers.good.size(), Partial::kIsSuccess);
}

// Returns "main;run;poll", outermost function first, as flame graph programs read it.
std::string folded(rpc::ProgramStack::Reader stack, kj::Maybe<const crash::SymbolTable&> symbols) {
  std::string text = stack.getProgram().cStr();
  auto frames = stack.getFrames();
  for (unsigned i = frames.size(); i-- > 0;) {
    auto described = describeFrame(frames[i], symbols);
    kj::ArrayPtr<const char> name = described;
    KJ_IF_MAYBE (blank, described.findFirst(' ')) {
      name = described.slice(*blank + 1);
      KJ_IF_MAYBE (plus, described.findLast('+')) {
        if (*plus > *blank) name = described.slice(*blank + 1, *plus);
      }
    }
    text += ';';
    for (char c : name) text += c == ';' ? ',' : c;
  }
  return text;
}

kj::Promise<int> runProfile(Invocation& call) {
  kj::StringPtr service = call.arguments[0];
  auto length = call.duration("length");
  if (length < 1 * kj::SECONDS || length > 10 * kj::MINUTES) {
    failUsage("--length must be from 1s to 10m");
  }
  auto session = co_await openSingle(call);
  auto& client = session->client;
  auto& timer = call.deps.timer;
  auto node = client.node(client.nodes()[0]);
  std::map<std::string, unsigned> counts;
  kj::Maybe<crash::SymbolTable> symbols;
  auto end = timer.now() + length;
  unsigned samples = 0;
  while (timer.now() < end) {
    auto left = (end - timer.now()) / kj::SECONDS + 1;
    call.deps.console.waiting(
        kj::str("profile of ", service, ": ", samples, " samples, ", left, " s to go"));
    kj::Promise<capnp::Response<Looked>> pending = ask(node, service);
    auto answer = co_await within(timer, session->deadline, kj::mv(pending));
    auto stack = answer.getStack();
    if (samples++ == 0) symbols = symbolsOf(call, stack.getBuildId());
    ++counts[folded(stack, tableOf(symbols))];
    co_await timer.afterDelay(kBetween);
  }
  for (auto& [stack, count] : counts) call.out(kj::str(printable(stack.c_str()), " ", count, "\n"));
  co_return 0;
}

}  // namespace

void addStackCommands(Command& debug) {
  auto& stack = debug.add("stack", "Show where a service's program is, and what it waits for");
  stack.arguments = "<service>";
  stack.least = stack.most = 1;
  stack.details =
      "The program goes on. Under way are the calls that it serves and the waits that have a\n"
      "limit, with the text that is said when the time is over. One that writes nothing within\n"
      "two seconds is stopped, waits in the kernel, or has just started.";
  addSymbolsFlag(stack);
  addOutputFlag(stack);
  stack.run = runStack;
  auto& profile = debug.add("profile", "Count where a service's program is, in folded stacks");
  profile.arguments = "<service>";
  profile.least = profile.most = 1;
  profile.details =
      "Looks at the program about 50 times a second, idle or not, and prints each stack with the\n"
      "number of times that it was seen, in the form that programs for flame graphs read.";
  profile.flag({.name = "length",
                .kind = FlagKind::kDuration,
                .fallback = "5s",
                .help = "how long it looks"});
  addSymbolsFlag(profile);
  profile.run = runProfile;
}

}  // namespace talos::talosctl
