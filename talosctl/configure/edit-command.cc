// edit <type> [<id>]
//
// For one node after the other, opens the running config in the user's editor until the node
// accepts the text or there is nothing to send. A text that cannot be applied is opened again as
// the user left it, with its errors as comments at the top; without a user at a terminal, three
// times at most.
#include <kj/debug.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/lines.h"
#include "common/base/resource.h"
#include "common/config/config.h"
#include "common/memory/zeroize.h"
#include "common/text/diff.h"
#include "rpc/machine-resources.capnp.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/table.h"
#include "talosctl/config/editor.h"
#include "talosctl/configure/apply-configs.h"
#include "talosctl/configure/configure-commands.h"
#include "talosctl/configure/follow-operation.h"

namespace talos::talosctl {

namespace {

struct Subject {
  kj::StringPtr node, id;
};

// Returns true for a refusal that a corrected text can fix.
bool canBeCorrected(const kj::Exception& e) {
  switch (kindOf(e)) {
    case ErrorKind::kInvalidArgument:
    case ErrorKind::kFailedPrecondition:
    case ErrorKind::kConflict:
      return true;
    default:
      return false;
  }
}

kj::Vector<kj::String> introduction(const Subject& subject) {
  kj::Vector<kj::String> lines;
  lines.add(kj::str(typeName<rpc::MachineConfigSpec>(), " ", subject.id, " of the node ",
                    printable(subject.node)));
  lines.add(kj::str(
      "Save and quit to apply this config to the node. These comments are not part of it; an"));
  lines.add(kj::str("empty or unchanged text is not applied."));
  return lines;
}

void addRefusal(kj::Vector<kj::String>& lines, kj::StringPtr reason) {
  lines.add(kj::str());
  lines.add(kj::str("The config was not applied:"));
  for (auto& line : linesOf(printableText(reason))) lines.add(kj::str("  ", line));
}

// Rounds in which a script as the editor can write a valid text.
constexpr unsigned kScriptRounds = 3;

// Returns the errors of a text, with their lines below `above` lines of comments.
kj::Vector<kj::String> commentsOn(kj::StringPtr text, const Subject& subject) {
  auto parsed = config::parse(text);
  auto lines = introduction(subject);
  if (parsed.empty()) {
    addRefusal(lines, "contains no config");
    return lines;
  }
  Problems list;
  for (auto& p : parsed.problems()) list.add(p.clone()).file = nullptr;
  auto above = lines.size() + 2 + linesOf(printableText(render(list))).size();
  for (auto& p : list) {
    if (p.line > 0) p.line += above;
  }
  addRefusal(lines, render(list));
  return lines;
}

// The outcome of one round with the editor.
struct Round {
  kj::Vector<kj::String> comments;
  kj::Maybe<kj::Exception> refusal;  // last refusal
};

// The error of a config that the node took is no refusal: the config went back, or its outcome is
// not known.
struct Tried {
  kj::Maybe<kj::Exception> error;
  bool taken = false;
};
kj::Promise<Tried> tryApply(Invocation& call, Session& session, kj::String node, kj::StringPtr text,
                            uint64_t version, ApplySettings settings) {
  Tried tried;
  try {
    co_await session.client.connect(session.deadline);  // editing may have taken hours
    co_await applyOne(call, session, Parcel{node, text, version}, settings, tried.taken);
  } catch (const kj::Exception& e) {
    tried.error = kj::cp(e);
  }
  co_return kj::mv(tried);
}

// After a conflict, shows the user the change of another client, to merge or to overwrite. From
// then on the text counts as based on the present running config.
kj::Promise<void> addOthersChange(Invocation& call, Session& session, const Subject& subject,
                                  RunningConfig& original, kj::Vector<kj::String>& comments) {
  auto now = co_await configToChange(call, session, subject.node);
  KJ_DEFER(zeroize(now.document));
  if (now.version == original.version) co_return;
  auto change = unifiedDiff(original.document, now.document, "your starting point", "now running");
  KJ_DEFER(zeroize(change));
  comments.add(kj::str());
  comments.add(
      kj::str("The node's config has been changed by another client meanwhile, as shown below."));
  comments.add(
      kj::str("Add what you want to keep, then save: your text replaces that config. Saved"));
  comments.add(kj::str("unchanged, your text is discarded."));
  auto shown = printableText(change);
  KJ_DEFER(zeroize(shown));
  for (auto line : Lines(shown)) comments.add(kj::str("  ", line));
  original.version = now.version;
}

kj::Promise<void> editOne(Invocation& call, Session& session, Subject subject, kj::StringPtr editor,
                          ApplySettings settings) {
  auto original = co_await configToChange(call, session, subject.node);
  auto text = kj::str(original.document);
  KJ_DEFER({
    zeroize(original.document);
    zeroize(text);
  });
  Draft draft(call.deps, kj::str("machineconfig-", subject.id, ".yaml"));
  auto skip = [&](kj::StringPtr reason) { printSkipped(call, subject.node, reason); };
  Round round{.comments = introduction(subject), .refusal = nullptr};
  bool user = call.deps.console.inIsTerminal();
  for (unsigned rounds = 0;; ++rounds) {
    if (!user && rounds == kScriptRounds) {
      auto& refusal = KJ_ASSERT_NONNULL(round.refusal);
      fail(kindOf(refusal),
           kj::str(messageOf(refusal), "\nthe editor was opened ", rounds,
                   " times; its last text, with its secrets, is kept in ", draft.keep(text)));
    }
    auto comments = asComments(round.comments);
    auto shown = kj::str(comments, text);
    KJ_DEFER({
      zeroize(comments);  // they may contain the change of another client
      zeroize(shown);
    });
    auto saved = co_await draft.edit(editor, shown);
    KJ_DEFER(zeroize(saved));
    auto edited = withoutComments(saved, comments);
    KJ_DEFER(zeroize(edited));
    if (isBlank(edited)) co_return skip("empty file");
    if (sameText(edited, original.document)) co_return skip("no changes detected");
    if (round.refusal != nullptr && sameText(edited, text)) {
      kj::throwFatalException(kj::mv(KJ_ASSERT_NONNULL(round.refusal)));
    }
    zeroize(text);
    text = kj::str(edited);
    KJ_IF_MAYBE (mistakes, mistakesOf(text, "")) {
      round.refusal = error(ErrorKind::kInvalidArgument, kj::str("not applied:\n", *mistakes));
      round.comments = commentsOn(text, subject);
      continue;
    }
    auto tried =
        co_await tryApply(call, session, kj::str(subject.node), text, original.version, settings);
    KJ_IF_MAYBE (e, tried.error) {
      if (tried.taken || !canBeCorrected(*e)) {
        if (!tried.taken && !mayPass(*e)) kj::throwFatalException(kj::mv(*e));
        fail(kindOf(*e), kj::str(messageOf(*e), "; the edited text, with its secrets, is kept in ",
                                 draft.keep(text)));
      }
      round.comments = introduction(subject);
      addRefusal(round.comments, messageOf(*e));
      if (kindOf(*e) == ErrorKind::kConflict) {
        co_await addOthersChange(call, session, subject, original, round.comments);
      }
      round.refusal = kj::mv(*e);
      continue;
    }
    co_return;
  }
}

kj::Promise<int> runEdit(Invocation& call) {
  auto settings = configChangeSettings(call);
  auto editor = editorOf(call.deps);
  auto session = co_await openSession(call);
  for (auto& node : session->client.nodes()) {
    kj::Maybe<kj::Exception> failure;
    try {
      co_await session->client.connect(session->deadline);
      co_await editOne(call, *session, Subject{node, changedConfigId(call)}, editor, settings);
    } catch (const kj::Exception& e) {
      failure = kj::cp(e);
    }
    KJ_IF_MAYBE (e, failure) {  // the remaining nodes are skipped
      kj::Vector<Failure> failures;
      failures.add(kj::str(node), kj::mv(*e));
      co_return conclude(call, failures, 0, Partial::kIsFailure);
    }
  }
  co_return 0;
}

}  // namespace

void addEditCommands(Command& root) {
  auto& edit = root.add("edit", "Edit the machine config of nodes");
  edit.details =
      "The editor is $TALOS_EDITOR, $EDITOR or vi; without a terminal one of the variables must "
      "name a program that changes the file. Several nodes are edited one after the other, each "
      "with its own config.";
  declareConfigChange(edit);
  edit.run = runEdit;
}

}  // namespace talos::talosctl
