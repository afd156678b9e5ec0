// A command of talosctl: data that says how it is called, and a function that runs it.
//
// The tree of Commands is the single source for parsing (commandline.h), help (help.h) and shell
// completion (completion.h). A command is added by a function `void addXCommands(Command& root)`
// that talosctl/commands/commands.inc lists:
//
//   kj::Promise<int> runLogs(Invocation& call);  // a coroutine; its value is the exit status
//
//   void addLogCommands(Command& root) {
//     auto& logs = root.add("logs", "Print the log of a service");
//     logs.arguments = "<id>", logs.least = 1, logs.most = 1;
//     logs.flag({.name = "follow", .letter = "f", .help = "follow the log"});
//     logs.interrupt = Interrupt::kIsSuccess;
//     logs.run = runLogs;
//   }
//
// A failure is an exception: fail() of common/base/error.h prints its message, failUsage() also the
// usage. Both give exit status 1.
#pragma once

#include <kj/async-io.h>
#include <kj/async-unix.h>
#include <kj/function.h>
#include <kj/map.h>
#include <kj/time.h>
#include <kj/vector.h>

#include <vector>

#include "common/base/node-layout.h"
#include "common/screen/drawn-text.h"
#include "common/text/foreign-text.h"

namespace talos::talosctl {

// The standard streams and what is known about them. Everything that talosctl shows goes through
// one, which is where it becomes harmless. Each function returns when the text is written.
class Console {
 public:
  virtual ~Console() noexcept(false) = default;

  // Text of any source: a terminal shows it and does not interpret it, now or when it is read from
  // a file (common/text/foreign-text.h).
  void out(kj::ArrayPtr<const char> text) { write(Stream::kOut, printableText(text)); }
  void err(kj::ArrayPtr<const char> text) { write(Stream::kErr, printableText(text)); }
  // Text that moves on a terminal, or has colours.
  void out(const DrawnText& text) { write(Stream::kOut, text.asPtr()); }
  void err(const DrawnText& text) { write(Stream::kErr, text.asPtr()); }
  // A file or a document, byte for byte; on a terminal as text.
  void outBytes(kj::ArrayPtr<const char> bytes) {
    outIsTerminal() ? out(bytes) : write(Stream::kOut, bytes);
  }

  enum class Stream { kOut, kErr };
  // Writes as it is. The others alone call it, and a console that stands before another one.
  virtual void write(Stream stream, kj::ArrayPtr<const char> bytes) = 0;
  virtual bool outIsTerminal() const = 0;
  virtual bool errIsTerminal() const = 0;
  virtual bool inIsTerminal() const = 0;
  virtual unsigned columns() const = 0;  // of the terminal; 80 when unknown
  virtual unsigned rows() const = 0;     // 24 when unknown
  // Grows with every text that is written to it, so that a writer of lines in place can tell
  // whether they are still the last ones.
  virtual uint64_t written() const = 0;
  // Shows on a terminal what the command waits for from now on: "waiting for 10.0.0.2". Empty:
  // nothing, because a program of the user's has the terminal, or a stream is quiet.
  virtual void waiting(kj::StringPtr what) {}
};
constexpr kj::StringPtr kWaiting = "waiting"_kj;  // for nothing that has a name

// Everything that a command may touch outside of its arguments.
struct Dependencies {
  kj::LowLevelAsyncIoProvider& lowLevel;
  kj::UnixEventPort& port;
  kj::Timer& timer;
  const kj::Clock& clock;  // wall clock: ages of events, RFC 3339 times
  Console& console;
  kj::Function<kj::Maybe<kj::String>(kj::StringPtr name)> environment;
  uint16_t apiPort = kApidPort;  // of every node; another one only in tests
  int input = 0;                 // standard input
  // The id of the requests that this call of talosctl makes (common/wire/request-id.h); empty: the
  // nodes choose one.
  kj::StringPtr requestId = ""_kj;
  bool requested = false;  // a node was called with it
  // A child has the terminal: Ctrl-C is meant for it, not for us.
  bool terminalLent = false;
};

enum class FlagKind {
  kBool,
  kText,
  kNumber,
  kList,   // repeatable; each value is a comma-separated list
  kTexts,  // repeatable; each value is taken as it is
  kDuration
};

struct Flag {
  kj::StringPtr name;         // without dashes
  kj::StringPtr letter = "";  // "f", or empty
  FlagKind kind = FlagKind::kBool;
  kj::StringPtr fallback = "";  // the default as a user would type it; empty: false, "", 0, none
  kj::StringPtr help = "";
  // Other values are refused; offered by completion. One that ends with "=" begins a value.
  std::vector<kj::StringPtr> choices = {};
  bool required = false;
  bool hidden = false;
  // A flag of the original that cannot mean anything here: why, as the end of a sentence. It is
  // hidden, and only what asks for nothing is accepted: its fallback, an empty value, false.
  kj::StringPtr refused = "";
};

// How long an answer may take when neither the user nor the command says otherwise.
constexpr kj::Duration kDeadline = 30 * kj::SECONDS;

// Commands that are for one thing, as help groups them.
struct Theme {
  kj::StringPtr title;
  std::vector<kj::StringPtr> commands;  // names, in the order in which help shows them
};

class Invocation;
using Run = kj::Promise<int> (*)(Invocation& call);

// The effect of the first SIGINT, SIGTERM or SIGHUP. The second one always ends the process.
enum class Interrupt {
  kIsFailure,   // the run is dropped, exit status 1
  kIsSuccess,   // the run is dropped, exit status 0: a stream that the user has seen enough of
  kIsCommands,  // the command awaits Invocation::interrupted() and cleans up itself
};

struct Command {
  kj::StringPtr name;
  kj::StringPtr summary;
  std::vector<kj::StringPtr> aliases = {};
  kj::StringPtr arguments = "";  // as help shows them: "<id> [<action>]"
  kj::StringPtr details = "";    // more lines of help
  unsigned least = 0, most = 0;  // number of arguments
  std::vector<std::vector<kj::StringPtr>> argumentChoices = {};  // by position, for completion only
  std::vector<Flag> flags = {};
  std::vector<Theme> themes = {};  // of its children; those that are in none come last
  bool hidden = false;
  bool anyFlags = false;  // unknown flags are accepted
  // --timeout when it is not given, of the answer or, of a command that waits for it, the outcome.
  kj::Duration timeout = kDeadline;
  Interrupt interrupt = Interrupt::kIsFailure;
  Run run = nullptr;  // none: the command is a group
  std::vector<kj::Own<Command>> children = {};
  Command* parent = nullptr;

  Command& add(kj::StringPtr name, kj::StringPtr summary);
  void flag(Flag flag);
  // By name or alias.
  kj::Maybe<Command&> child(kj::StringPtr argument);
  // "talosctl config endpoint"
  kj::String path() const;
};

// The command below `root` with these names or aliases: "config endpoint"; `root` itself for "".
kj::Maybe<Command&> commandAt(Command& root, kj::StringPtr path);

// The root with its persistent flags: --talosconfig --context --nodes --endpoints --timeout --help.
kj::Own<Command> newRoot();

// One call of one command.
class Invocation {
 public:
  Invocation(Dependencies& deps, const Command& root, const Command& command)
      : deps(deps), root(root), command(command) {}

  Dependencies& deps;
  const Command& root;
  const Command& command;
  kj::Vector<kj::String> arguments;

  // Flags of the command or persistent ones, by long name; a name that is not declared is a bug
  // (throws).
  bool on(kj::StringPtr flag) const;
  kj::StringPtr text(kj::StringPtr flag) const;
  int64_t number(kj::StringPtr flag) const;
  // The values of a list.
  kj::ArrayPtr<const kj::String> list(kj::StringPtr flag) const;
  kj::Duration duration(kj::StringPtr flag) const;
  bool given(kj::StringPtr flag) const;  // on the command line
  // True when the command has such a flag at all.
  bool declared(kj::StringPtr flag) const { return values.find(flag) != nullptr; }

  // --timeout, or when it was not given the command's, or `fallback`.
  kj::Duration deadline() const { return deadline(command.timeout); }
  kj::Duration deadline(kj::Duration fallback) const;

  // Resolves at the first SIGINT, SIGTERM or SIGHUP; see Interrupt.
  kj::Promise<void> interrupted() { return interruption->addBranch(); }

  void out(kj::StringPtr text) { deps.console.out(text); }
  void out(const DrawnText& text) { deps.console.out(text); }
  void outBytes(kj::ArrayPtr<const char> bytes) { deps.console.outBytes(bytes); }
  void err(kj::StringPtr text) { deps.console.err(text); }
  void err(const DrawnText& text) { deps.console.err(text); }

  struct Value {
    bool given = false;
    kj::Vector<kj::String> texts;
  };  // filled by the parser
  kj::TreeMap<kj::StringPtr, Value> values;
  kj::Own<kj::ForkedPromise<void>> interruption;

 private:
  const Value& value(kj::StringPtr flag) const;
};

// A usage error: runs end with the message and the command's usage on stderr,
// status 1.
[[noreturn]] void failUsage(kj::StringPtr message);
bool isUsage(const kj::Exception& e);

// "1m30s", "500ms", "2h", "45" (seconds). None when it is not a duration.
kj::Maybe<kj::Duration> parseDuration(kj::StringPtr text);

}  // namespace talos::talosctl
