// upgrade, rollback, confirm-upgrade
#include <kj/debug.h>

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/url-secrets.h"
#include "common/disk/boot-slots.h"
#include "common/text/foreign-text.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/node-outcome.h"
#include "talosctl/cli/progress-lines.h"
#include "talosctl/cli/table.h"
#include "talosctl/client/answer-output.h"
#include "talosctl/client/follow-node.h"
#include "talosctl/client/long-calls.h"
#include "talosctl/etcd/etcd-quorum.h"
#include "talosctl/rollout/attempts.h"
#include "talosctl/upgrade/image-file.h"
#include "talosctl/upgrade/upgrade-answers.h"
#include "talosctl/upgrade/upgrade-commands.h"

namespace talos::talosctl {

namespace {

// An image is pulled within 20 minutes or not at all.
constexpr kj::Duration kFetch = 25 * kj::MINUTES, kLookAnswer = 5 * kj::SECONDS,
                       kLookFetch = 1 * kj::SECONDS;
// Time for the reboots, in addition to the time for the new system to become healthy.
constexpr kj::Duration kReboots = 10 * kj::MINUTES;
constexpr unsigned kDefaultHealth = 600;

struct Change {
  Invocation& call;
  kj::ArrayPtr<const kj::String> names;
  Progress progress;
  kj::Array<kj::String> bootIds;  // empty: the request was refused, or has ended already
  kj::Vector<Failure> failures;
  kj::Maybe<kj::Own<ImageFile>> file = nullptr;  // file to send
};

unsigned healthSeconds(Invocation& call) {
  if (!call.given("health-timeout")) return 0;
  auto seconds = call.duration("health-timeout") / kj::SECONDS;
  if (seconds < 1 || seconds > kj::maxValue.operator uint32_t()) {
    failUsage("--health-timeout must be 30s to 24h");
  }
  return static_cast<unsigned>(seconds);
}

// Requires support for staging: a system without it would reboot at once.
kj::Promise<void> requireStaging(rpc::Node::Client node) {
  auto found = co_await ifFound(askUpgradeStatus(kj::mv(node)));
  KJ_IF_MAYBE (status, found) {
    if (upgradeStatusOf(*status).getCanStage()) co_return;
  }
  fail(ErrorKind::kFailedPrecondition,
       "the node cannot stage an upgrade: it has no slots, as a node in a container, or its system "
       "is older than --stage; leave out --stage");
}

// Returns the timeout of a request.
uint32_t healthOf(Invocation& call) {
  return healthSeconds(call) + (call.on("live") ? install::kLiveTimeout : 0);
}

kj::Promise<kj::String> ask(Change& change, rpc::Node::Client node, size_t index) {
  auto& call = change.call;
  auto upgrades = node.upgradesRequest().send().getUpgrades();
  if (!call.declared("image")) {
    auto request = upgrades.rollbackRequest();
    request.setHealthTimeoutS(healthOf(call));
    request.setForce(call.on("force"));
    request.setLive(call.on("live"));
    auto answer = co_await request.send();
    if (answer.getWithdrawn().size() == 0) co_return kj::str(answer.getBootId());
    change.progress.set(index, kj::str("withdrew ", answer.getWithdrawn(),
                                       ", which was staged; the node does not reboot"));
    co_return kj::String();
  }
  if (call.on("stage")) co_await requireStaging(node);
  auto request = upgrades.upgradeRequest();
  auto image = splitImageName(call.text("image"));
  request.setImage(image.name);
  request.setQuery(image.query);
  request.setPreserve(call.on("preserve"));
  request.setForce(call.on("force"));
  request.setStage(call.on("stage"));
  request.setLive(call.on("live"));
  request.setHealthTimeoutS(healthOf(call));
  KJ_IF_MAYBE (file, change.file) {
    (*file)->fill(request.initFile(), [&change, index](uint64_t done, uint64_t size) {
      change.progress.set(index, kj::str("sending ", change.call.text("image"), ": ",
                                         done * 20 / size * 5, " % of ", size >> 20, " MiB"));
    });
  }
  co_return kj::str((co_await request.send()).getBootId());
}

// Shows the progress of an image that the node fetches itself, until dropped.
kj::Promise<void> showFetch(Change& change, Client& client, size_t index) {
  auto& timer = change.call.deps.timer;
  for (;;) {
    co_await timer.afterDelay(kLookFetch);
    kj::Maybe<kj::String> text;
    co_await within(timer, kLookAnswer, askUpgradeStatus(client.node(change.names[index])))
        .then(
            [&](UpgradeAnswer&& found) {
              auto status = upgradeStatusOf(found);
              auto progress = fetchProgress(status);
              if (progress.size() > 0) {
                text = kj::str("fetching ", status.getImage(), ": ", progress);
              }
            },
            [](kj::Exception&&) {});  // the upgrade request itself reports the error
    KJ_IF_MAYBE (t, text) change.progress.set(index, *t);
  }
}

kj::Promise<void> request(Change& change, Client& client, size_t index) {
  auto& call = change.call;
  kj::Promise<void> shown = kj::NEVER_DONE;
  if (call.declared("image")) {
    change.progress.set(index, kj::str(change.file == nullptr ? "fetching " : "sending ",
                                       splitImageName(call.text("image")).name));
    if (change.file == nullptr) shown = showFetch(change, client, index);
  }
  kj::Maybe<kj::Exception> wrong;
  auto& timer = call.deps.timer;
  auto node = client.node(change.names[index]);
  co_await within(timer, kFetch, whileAnswering(timer, node, ask(change, node, index)))
      .then([&](kj::String bootId) { change.bootIds[index] = kj::mv(bootId); },
            [&](kj::Exception&& e) {
              wrong = call.on("live") ? explainedLive(kj::mv(e)) : kj::mv(e);
            })
      .exclusiveJoin(kj::mv(shown));
  KJ_IF_MAYBE (e, wrong) {
    change.progress.fail(index);
    change.failures.add(kj::str(change.names[index]), kj::mv(*e));
  }
}

kj::Promise<Judgement> look(Client& client, kj::StringPtr name, kj::StringPtr before, bool live) {
  auto node = client.node(name);
  auto version = node.machineRequest().send().getMachine().versionRequest().send();
  auto status = askUpgradeStatus(node);
  auto bootId = kj::str((co_await version).getBootId());
  auto found = co_await status;
  co_return judgeUpgrade(before, bootId, upgradeStatusOf(found), live);
}

kj::Promise<void> toTheEnd(Change& change, size_t index) {
  auto health = healthSeconds(change.call);
  Follower follower{
      .limit =
          change.call.deadline(kReboots + (health > 0 ? health : kDefaultHealth) * kj::SECONDS),
      .look =
          [&change, index](Client& client) {
            return look(client, change.names[index], change.bootIds[index], change.call.on("live"));
          },
      // The node is shutting down or booting.
      .silent =
          [](bool, kj::ArrayPtr<const kj::String>) {
            return Judgement{Verdict::kWait, kj::str("no answer")};
          }};
  co_await follow(change.call, kj::mv(follower), change.progress, index);
}

// Shows the failure of this node at once, before all nodes have ended.
kj::Promise<void> follow(Change& change, size_t index) {
  return toTheEnd(change, index)
      .catch_([&change, index](kj::Exception&& e) {
        change.progress.fail(index);
        change.failures.add(kj::str(change.names[index]), kj::mv(e));
      })
      .eagerlyEvaluate(nullptr);
}

kj::Promise<void> requestInTurn(Change& change, Session& session, Turns& turns, size_t index) {
  KJ_DEFER(turns.answered(index));
  co_await turns.start(index);
  co_await request(change, session.client, index);
}

// Requests all upgrades at once; the node through which the others are reached comes last.
kj::Promise<void> requestAll(Change& change, Session& session) {
  auto turns = co_await takeTurns(session, change.names);
  auto asked = kj::heapArrayBuilder<kj::Promise<void>>(change.names.size());
  for (auto i : kj::indices(change.names)) asked.add(requestInTurn(change, session, *turns, i));
  co_await kj::joinPromises(asked.finish());
}

kj::Promise<void> followAll(Change& change) {
  kj::Vector<kj::Promise<void>> followed;
  for (auto i : kj::indices(change.names)) {
    if (change.bootIds[i].size() > 0) followed.add(follow(change, i));
  }
  co_await kj::joinPromises(followed.releaseAsArray());
}

// Opens a new connection: the previous one may go through a node that has rebooted since.
kj::Promise<void> changeOne(Change& change, size_t index) {
  Client client(change.call.deps, resolveTarget(change.call));
  co_await client.connect(kDeadline);
  co_await request(change, client, index);
  if (change.bootIds[index].size() > 0) co_await follow(change, index);
}

// Upgrades each node when the previous node's system is confirmed. After the first failure the
// other nodes stay as they are.
kj::Promise<void> changeOneByOne(Change& change) {
  auto& names = change.names;
  auto& console = change.call.deps.console;
  for (auto i : kj::range(1ul, names.size())) change.progress.set(i, "waiting for its turn"_kj);
  for (auto i : kj::indices(names)) {
    co_await changeOne(change, i).catch_([&](kj::Exception&& e) {
      change.progress.fail(i);
      change.failures.add(kj::str(names[i]), kj::mv(e));
    });
    if (change.failures.empty()) continue;
    auto rest = names.slice(i + 1, names.size());
    auto text = kj::str("left as it is, because ", names[i], " failed; repeat it with --nodes ",
                        kj::strArray(rest, ","), " when that is well");
    for (auto later : kj::range(i + 1, names.size())) {
      if (console.drawsOnErr()) change.progress.set(later, "left as it is"_kj);
      change.failures.add(kj::str(names[later]), error(ErrorKind::kFailedPrecondition, text));
    }
    co_return;
  }
}

kj::String acknowledged(const Change& change, kj::Date now) {
  Table table({"NODE", "ACK", "STARTED"});
  for (auto i : kj::indices(change.names)) {
    if (change.bootIds[i].size() == 0) continue;
    table.add(
        change.names[i],
        change.call.declared("image") ? "Upgrade request received" : "Rollback request received",
        dateText(now));
  }
  return table.render();
}

// Returns the consequence for etcd. Empty for a node without etcd, or if the consequence is
// unknown: the node knows more, and refuses the upgrade if it must.
kj::Promise<kj::String> departureOf(Invocation& call, Session& session, kj::StringPtr node) {
  bool restarts = !call.declared("image") || call.on("preserve");
  auto departure = restarts ? EtcdDeparture::kRestarts : EtcdDeparture::kRejoins;
  auto etcd = session.client.node(node).etcdRequest().send().getEtcd();
  return within(
             call.deps.timer, kDeadline,
             kj::Promise<capnp::Response<rpc::Etcd::MembersResults>>(etcd.membersRequest().send()))
      .then(
          [departure](capnp::Response<rpc::Etcd::MembersResults>&& answer) {
            return departureText(answer.getMembers(), departure);
          },
          [](kj::Exception&& e) {
            if (kindOf(e) == ErrorKind::kFailedPrecondition) return kj::String();
            return kj::str("the effect on etcd is not known: ", messageOf(e));
          });
}

// Requests all consequences at once, and prints them in the order of the nodes.
kj::Promise<void> printDepartures(Invocation& call, Session& session,
                                  kj::ArrayPtr<const kj::String> names) {
  auto asking = KJ_MAP(name, names) {
    return departureOf(call, session, name);
  };
  auto texts = co_await kj::joinPromises(kj::mv(asking));
  for (auto i : kj::indices(texts)) {
    if (texts[i].size() == 0) continue;
    call.err(kj::str(printableText(names[i]), ": ", printableText(texts[i]), "\n"));
  }
}

// Prints an object for each node, failed nodes last.
void printOutcomes(const Change& change) {
  for (auto& name : change.names) {
    bool failed = false;
    for (auto& failure : change.failures) failed = failed || failure.node == name;
    if (!failed) printDone(change.call, name);
  }
  for (auto& failure : change.failures) printFailure(change.call, failure);
}

kj::Promise<int> runChange(Invocation& call) {
  healthSeconds(call);
  if (call.on("live") && call.declared("image")) {
    if (call.on("stage")) failUsage("--live and --stage exclude each other");
    if (!call.on("preserve")) failUsage("--live keeps EPHEMERAL, which is in use: use --preserve");
  }
  kj::Maybe<kj::Own<ImageFile>> file;
  if (call.declared("image") && isImageFile(call.text("image"))) {
    file = co_await ImageFile::open(call.deps.timer, call.text("image"));
  }
  auto session = co_await openSession(call, kDeadline);
  bool table = formatOf(call) == Format::kTable;
  auto names = session->client.nodes();
  if (!call.on("live")) co_await printDepartures(call, *session, names);
  Change change{.call = call,
                .names = names,
                .progress = Progress(call.deps.console, names),
                .bootIds = kj::heapArray<kj::String>(names.size()),
                .failures = {},
                .file = kj::mv(file)};
  bool stages = call.declared("stage") && call.on("stage");
  if (call.on("wait") && !stages && names.size() > 1) {
    co_await changeOneByOne(change);
  } else {
    co_await requestAll(change, *session);
    if (change.failures.size() < names.size() && table && !call.on("wait")) {
      call.out(acknowledged(change, call.deps.clock.now()));
    }
    if (call.on("wait")) co_await followAll(change);
  }
  printOutcomes(change);
  co_return conclude(call, change.failures, names.size() - change.failures.size(),
                     Partial::kIsFailure);
}

// The write to disk, and the health check of a node with etcd, may each take seconds.
constexpr kj::Duration kConfirmation = 1 * kj::MINUTES;

kj::Promise<int> runConfirm(Invocation& call) {
  auto session = co_await openSession(call);
  auto answers =
      co_await askAll<rpc::Upgrades::ConfirmResults>(*session, [](rpc::Node::Client node) {
        return node.upgradesRequest().send().getUpgrades().confirmRequest().send();
      });
  for (auto& answer : answers.good) {
    auto lacked = answer.value.getLacked();
    printDone(call, answer.node, {{"lacked"_kj, jsonString(lacked)}});
    call.err(kj::str(printableText(kj::str(answer.node, ": confirmed",
                                           lacked.size() > 0 ? ", although: " : "", lacked)),
                     "\n"));
  }
  for (auto& failure : answers.failures) printFailure(call, failure);
  co_return conclude(call, answers.failures, answers.good.size(), Partial::kIsFailure);
}

void addLiveFlag(Command& command) {
  command.flag({.name = "live",
                .help = "without a reboot: the new system takes over under the running pods; "
                        "refused on machines, and if its process 1 or the files below the "
                        "overlays are others"});
}

void addHealthFlags(Command& command) {
  addWaitFlag(command, true);
  command.flag({.name = "health-timeout",
                .kind = FlagKind::kDuration,
                .help = "how long the new system has to become healthy, 30s to 24h (default 10m)"});
  addOutputFlag(command);
  command.timeout = kReboots + kDefaultHealth * kj::SECONDS;
  command.run = runChange;
}

}  // namespace

void addUpgradeCommands(Command& root) {
  auto& upgrade = root.add("upgrade", "Upgrade nodes to another version of the system");
  upgrade.flag({.name = "image",
                .letter = "i",
                .kind = FlagKind::kText,
                .help = "the installer image: [registry/]name[:tag][@digest], "
                        "https://host/archive.tar#sha256=<hex>, or a file, ./archive.tar",
                .required = true});
  upgrade.flag({.name = "preserve",
                .letter = "p",
                .help = "keep the data on EPHEMERAL (/var); otherwise the new system erases it"});
  upgrade.flag({.name = "force",
                .letter = "f",
                .help = "upgrade even if etcd would lose its quorum or is not healthy, and to a "
                        "signed image that is older than what the node has run; without "
                        "--preserve, upgrading the only voter ends the etcd cluster"});
  upgrade.flag({.name = "stage",
                .letter = "s",
                .help = "write and verify the new system now, and try it at the next reboot"});
  addLiveFlag(upgrade);
  upgrade.details =
      "The new system is started once. If it is not healthy in time (the API, the services, the "
      "network), the node reverts to the old one by itself. The upgrade of a control-plane node is "
      "refused if etcd would lose its quorum; without --preserve the node leaves etcd, and joins "
      "it again with the new system. Shows the progress until the new system is confirmed, or "
      "staged, unless --wait=false is given. See talosctl get upgradestatus.\n\n"
      "Several nodes take turns, in the order in which they are given: each is upgraded when the "
      "system of the one before is confirmed, and the first failure leaves the others as they are. "
      "With --stage or --wait=false all are asked at once.\n\n"
      "A path that begins with / ./ or ../ is a file of this machine, which is sent to the nodes; "
      "a "
      "file beside it with .sig at its end is its signature. A URL with http needs the digest of "
      "the archive.";
  addRebootMode(upgrade, "reboot-mode");
  addHealthFlags(upgrade);
  auto& rollback = root.add("rollback", "Revert to the system of the other slot");
  rollback.details =
      "It is tried like a new one: if it is not healthy in time, the node reverts to the system "
      "that runs now. The rollback of a control-plane node is refused if etcd would lose its "
      "quorum meanwhile. A system that is staged is withdrawn instead, without a reboot.";
  rollback.flag({.name = "force",
                 .letter = "f",
                 .help = "roll back even if etcd would lose its quorum or is not healthy"});
  addLiveFlag(rollback);
  addHealthFlags(rollback);
}

void addConfirmUpgradeCommand(Command& root) {
  auto& confirm = root.add("confirm-upgrade", "Keep the system that is on trial after an upgrade");
  confirm.details =
      "A system on trial is confirmed by itself when it is healthy. If it waits for other nodes, "
      "or for something that is meant to be so, this keeps it as it is, and the node no longer "
      "reverts to the old system by itself. Prints what it lacked. See talosctl get upgradestatus.";
  addOutputFlag(confirm);
  confirm.timeout = kConfirmation;
  confirm.run = runConfirm;
}

}  // namespace talos::talosctl
