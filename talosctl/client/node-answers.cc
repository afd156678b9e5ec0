#include "talosctl/client/node-answers.h"

#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/run-command.h"

namespace talos::talosctl {

kj::String describe(const Failure& failure) {
  return kj::str(printableText(failure.node), ": ", messageText(failure.cause));
}

Turns::Turns(size_t nodes, kj::Maybe<size_t> last)
    : last(last), before(last == nullptr ? nodes : nodes - 1) {
  if (before == 0) allAnswered.fulfiller->fulfill();
}

kj::Promise<void> Turns::start(size_t index) {
  if (last.orDefault(kj::maxValue) != index) return kj::READY_NOW;
  return kj::mv(allAnswered.promise);
}

void Turns::answered(size_t index) {
  if (last.orDefault(kj::maxValue) == index) return;
  if (--before == 0) allAnswered.fulfiller->fulfill();
}

namespace {

constexpr kj::Duration kAcquaintance = 5 * kj::SECONDS;

// Returns the id of the machine's present boot; empty if the machine does not report it.
kj::Promise<kj::String> bootOf(Session& session, kj::StringPtr node) {
  auto answer =
      session.client.node(node).machineRequest().send().getMachine().versionRequest().send();
  return within(session.client.deps.timer, kAcquaintance,
                answer.then([](capnp::Response<rpc::Version>&& version) {
                  return kj::str(version.getBootId());
                }))
      .catch_([](kj::Exception&&) { return kj::str(); });
}

}  // namespace

kj::Promise<kj::Maybe<size_t>> findEndpoint(Session& session,
                                            kj::ArrayPtr<const kj::String> nodes) {
  auto asking = kj::heapArrayBuilder<kj::Promise<kj::String>>(nodes.size() + 1);
  asking.add(bootOf(session, ""));
  for (auto& node : nodes) asking.add(bootOf(session, node));
  auto boots = co_await kj::joinPromises(asking.finish());
  kj::Maybe<size_t> found;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (boots[0].size() > 0 && boots[0] == boots[i + 1]) found = i;
  }
  co_return found;
}

kj::Promise<kj::Own<Turns>> takeTurns(Session& session, kj::ArrayPtr<const kj::String> nodes) {
  kj::Maybe<size_t> last;
  if (nodes.size() > 1) last = co_await findEndpoint(session, nodes);
  co_return kj::heap<Turns>(nodes.size(), last);
}

MissingAnswers::MissingAnswers(Console& console, kj::ArrayPtr<const kj::String> nodes)
    : console(console), nodes(nodes), missing(KJ_MAP(node, nodes) { return true; }) {
  show();
}

void MissingAnswers::recordAnswer(size_t index) {
  missing[index] = false;
  show();
}

void MissingAnswers::show() {
  kj::Vector<kj::String> names;
  for (auto i : kj::indices(nodes)) {
    if (missing[i]) names.add(kj::str(nodes[i]));
  }
  console.waiting(waitingFor(names));
}

namespace {

// Returns the note of the first failure that has one: the id is the same on all nodes.
kj::String noteOf(const Dependencies& deps, kj::ArrayPtr<const Failure> failures) {
  for (auto& failure : failures) {
    auto note = requestNote(deps, failure.cause);
    if (note.size() > 0) return note;
  }
  return kj::String();
}

}  // namespace

int conclude(Invocation& call, kj::ArrayPtr<const Failure> failures, size_t good, Partial partial) {
  if (failures.size() == 0) return 0;
  auto all = kj::strArray(KJ_MAP(f, failures) { return describe(f); }, "\n  ");
  bool failed = good == 0 || partial == Partial::kIsFailure;
  call.err(kj::str(
      failed ? "error: " : "WARNING: ",
      failures.size() == 1 ? kj::str(all) : kj::str(failures.size(), " nodes failed:\n  ", all),
      "\n", failed ? noteOf(call.deps, failures) : kj::String()));
  return failed ? 1 : 0;
}

}  // namespace talos::talosctl
