#include "talosctl/upgrade-cluster/remote-nodes.h"

#include "common/base/error.h"
#include "common/disk/boot-slots.h"
#include "talosctl/cli/node-outcome.h"
#include "talosctl/client/long-calls.h"
#include "talosctl/upgrade-cluster/node-answers-read.h"
#include "talosctl/upgrade/upgrade-answers.h"

namespace talos::talosctl {
namespace {

constexpr auto kConnect = 10 * kj::SECONDS, kAnswer = 8 * kj::SECONDS,
               kSurveyAnswer = 35 * kj::SECONDS,  // the survey may take 30 s (kubernetes.capnp)
    kHandOverAnswer = 15 * kj::SECONDS, kShowPause = 1 * kj::SECONDS,
               kFetchAnswer =
                   25 * kj::MINUTES;  // an image is fetched within 20 minutes or not at all

kj::Vector<kj::String> copy(kj::ArrayPtr<const kj::String> texts) {
  kj::Vector<kj::String> all;
  for (auto& text : texts) all.add(kj::str(text));
  return all;
}

}  // namespace

RemoteNodes::RemoteNodes(Invocation& call, ImageSource& source,
                         kj::ArrayPtr<const kj::String> nodes, bool kubernetes,
                         unsigned healthTimeoutS)
    : call(call),
      source(source),
      addresses(copy(nodes)),
      controlPlane(copy(nodes)),
      kubernetes(kubernetes),
      healthTimeoutS(healthTimeoutS) {}

kj::Own<Client> RemoteNodes::newClient() {
  return kj::heap<Client>(call.deps, resolveTarget(call));
}

kj::Promise<KubernetesSurvey> RemoteNodes::askKubernetes(Client& client) {
  using Answer = capnp::Response<rpc::Kubernetes::SurveyResults>;
  KubernetesSurvey none;
  for (auto& node : controlPlane) {
    auto request = client.node(node).kubernetesRequest().send().getKubernetes().surveyRequest();
    try {
      auto answer =
          co_await within(call.deps.timer, kSurveyAnswer, kj::Promise<Answer>(request.send()));
      co_return readSurvey(answer.getSurvey());
    } catch (const kj::Exception& e) {
      none.problem = kj::str(node, ": ", messageOf(e));
    }
  }
  co_return kj::mv(none);
}

kj::Promise<EtcdSurvey> RemoteNodes::askEtcd(Client& client) {
  using Members = capnp::Response<rpc::Etcd::MembersResults>;
  using Alarms = capnp::Response<rpc::Etcd::AlarmsResults>;
  EtcdSurvey none;
  for (auto& node : controlPlane) {
    auto etcd = client.node(node).etcdRequest().send().getEtcd();
    try {
      auto alarmsAsked = kj::Promise<Alarms>(etcd.alarmsRequest().send());
      auto members = co_await within(call.deps.timer, kAnswer,
                                     kj::Promise<Members>(etcd.membersRequest().send()));
      auto survey = readMembers(members);
      auto alarms = co_await within(call.deps.timer, kAnswer, kj::mv(alarmsAsked));
      readAlarms(alarms, survey);
      co_return kj::mv(survey);
    } catch (const kj::Exception& e) {
      none.problem = kj::str(node, ": ", messageOf(e));
    }
  }
  co_return kj::mv(none);
}

kj::Promise<ClusterSurvey> RemoteNodes::survey() {
  ClusterSurvey survey;
  auto client = newClient();
  kj::Maybe<kj::String> unreached;
  try {
    co_await client->connect(kConnect);
  } catch (const kj::Exception& e) {
    unreached = messageOf(e);
  }
  KJ_IF_MAYBE (why, unreached) {
    for (auto& address : addresses) {
      auto& node = survey.nodes.add();
      node.address = kj::str(address);
      node.silence = kj::str(*why);
    }
    co_return kj::mv(survey);
  }
  if (kubernetes) {
    auto known = co_await askKubernetes(*client);
    if (known.problem.size() == 0) {
      addresses.clear();
      for (auto& node : known.nodes) {
        if (node.address.size() > 0) addresses.add(kj::str(node.address));
      }
    }
    survey.kubernetes = kj::mv(known);
  }
  auto asking = KJ_MAP(address, addresses) {
    return surveyNode(call.deps.timer, client->node(address), kj::str(address), kAnswer);
  };
  auto nodes = co_await kj::joinPromises(kj::mv(asking));
  kj::Vector<kj::String> answering;
  for (auto& node : nodes) {
    if (node.controlPlane) answering.add(kj::str(node.address));
    survey.nodes.add(kj::mv(node));
  }
  if (!answering.empty()) {
    controlPlane = kj::mv(answering);
    survey.etcd = co_await askEtcd(*client);
  }
  co_return kj::mv(survey);
}

kj::Promise<RollingCluster::Look> RemoteNodes::look(kj::StringPtr name, kj::StringPtr before) {
  kj::Maybe<kj::Exception> failure;
  try {
    auto& client = *followers.findOrCreate(name, [&]() {
      return kj::TreeMap<kj::String, kj::Own<Client>>::Entry{kj::str(name), newClient()};
    });
    co_await client.connect(kAnswer);
    auto node = client.node(name);
    auto version = node.machineRequest().send().getMachine().versionRequest().send();
    auto status = askUpgradeStatus(node);
    auto boot = co_await within(call.deps.timer, kAnswer,
                                kj::Promise<capnp::Response<rpc::Version>>(kj::mv(version)));
    auto found = co_await within(call.deps.timer, kAnswer, kj::mv(status));
    auto state = upgradeStatusOf(found);
    co_return Look{judgeUpgrade(before, boot.getBootId(), state, call.on("live")),
                   kj::str(state.getDigest()), kj::str(state.getVersion())};
  } catch (...) {
    failure = kj::getCaughtExceptionAsKj();
  }
  followers.erase(name);  // a machine that is off leaves a connection that looks alive
  kj::throwFatalException(kj::mv(KJ_ASSERT_NONNULL(failure)));
}

// Returns the image that the first node has determined for the user's text.
kj::String RemoteNodes::imageFor(const TargetImage& target) const {
  if (source.file != nullptr || target.digest.size() == 0) {
    return target.digest.size() > 0 ? kj::str(target.digest) : kj::str(source.name.name);
  }
  bool url = source.name.name.startsWith("https://") || source.name.name.startsWith("http://");
  if (!url) return kj::str(target.digest);
  if (source.name.name.findFirst('#') != nullptr) return kj::str(source.name.name);
  KJ_IF_MAYBE (mark, target.digest.findLast('#')) {
    return kj::str(source.name.name, target.digest.slice(*mark));
  }
  return kj::str(source.name.name);
}

kj::Promise<FetchOutcome> RemoteNodes::fetchOnce(Client& client, kj::StringPtr name,
                                                 const TargetImage& target, bool keep) {
  auto node = client.node(name);
  auto request = node.upgradesRequest().send().getUpgrades().fetchRequest();
  KJ_IF_MAYBE (file, source.file) {
    request.setImage(source.name.name);
    (*file)->fill(request.initFile(), [](uint64_t, uint64_t) {});
  } else {
    request.setImage(imageFor(target));
    request.setQuery(source.name.query);
  }
  request.setKeep(keep);
  using Answer = capnp::Response<rpc::Upgrades::FetchResults>;
  auto& timer = call.deps.timer;
  auto pending = whileAnswering(timer, node, kj::Promise<Answer>(request.send()));
  auto answer = co_await within(timer, kFetchAnswer, kj::mv(pending));
  FetchOutcome outcome;
  outcome.node = kj::str(name);
  outcome.digest = kj::str(answer.getDigest());
  outcome.version = kj::str(answer.getVersion());
  outcome.isSigned = answer.getSigned();
  co_return kj::mv(outcome);
}

// Shows the progress until dropped.
kj::Promise<void> RemoteNodes::showFetch(Client& client, kj::StringPtr node, Fetched& progress) {
  for (;;) {
    co_await call.deps.timer.afterDelay(kShowPause);
    kj::String text;
    co_await within(call.deps.timer, kAnswer, askUpgradeStatus(client.node(node)))
        .then([&](UpgradeAnswer&& answer) { text = fetchProgress(upgradeStatusOf(answer)); },
              [](kj::Exception&&) {});  // the fetch request itself reports the error
    if (text.size() > 0) progress(text);
  }
}

kj::Promise<FetchOutcome> RemoteNodes::fetch(kj::StringPtr node, const TargetImage& target,
                                             bool keep, Fetched progress) {
  auto end = call.deps.timer.now() + kConflictLimit;
  FetchOutcome outcome;
  for (bool again = true; again;) {
    again = false;
    try {
      auto client = newClient();
      co_await client->connect(kConnect);
      outcome = co_await fetchOnce(*client, node, target, keep)
                    .exclusiveJoin(
                        showFetch(*client, node, progress).then([]() -> kj::Promise<FetchOutcome> {
                          return kj::NEVER_DONE;
                        }));
    } catch (...) {
      auto e = kj::getCaughtExceptionAsKj();
      outcome.node = kj::str(node);
      outcome.error = messageOf(e);
      outcome.unknown = kindOf(e) == ErrorKind::kUnimplemented;
      // The fetch of an earlier, interrupted run may just be ending.
      again = kindOf(e) == ErrorKind::kConflict && call.deps.timer.now() < end;
    }
    if (again) co_await call.deps.timer.afterDelay(kShowPause);
  }
  if (outcome.unknown) {
    outcome.error = kj::String();
    cannotFetch.add(kj::str(node));
  }
  co_return kj::mv(outcome);
}

kj::Promise<kj::String> RemoteNodes::upgrade(kj::StringPtr name, const TargetImage& target) {
  auto client = newClient();
  co_await client->connect(kConnect);
  auto node = client->node(name);
  auto request = node.upgradesRequest().send().getUpgrades().upgradeRequest();
  request.setImage(imageFor(target));
  request.setQuery(source.name.query);
  request.setPreserve(true);
  bool live = call.on("live");
  request.setLive(live);
  request.setHealthTimeoutS(healthTimeoutS + (live ? install::kLiveTimeout : 0));
  for (auto& old : cannotFetch) {
    if (old != name) continue;
    KJ_IF_MAYBE (file, source.file) {
      request.setImage(source.name.name);
      (*file)->fill(request.initFile(), [](uint64_t, uint64_t) {});
    }
  }
  using Answer = capnp::Response<rpc::Upgrades::UpgradeResults>;
  auto& timer = call.deps.timer;
  auto pending = whileAnswering(timer, node, kj::Promise<Answer>(request.send()));
  kj::Maybe<kj::Exception> problem;
  auto answer = co_await within(timer, kFetchAnswer, kj::mv(pending))
                    .then([](Answer&& a) { return kj::str(a.getBootId()); })
                    .catch_([&](kj::Exception&& e) {
                      problem = live ? explainedLive(kj::mv(e)) : kj::mv(e);
                      return kj::String();
                    });
  KJ_IF_MAYBE (e, problem) kj::throwFatalException(kj::mv(*e));
  co_return kj::mv(answer);
}

kj::Promise<void> RemoteNodes::forfeit(kj::StringPtr node) {
  auto client = newClient();
  co_await client->connect(kConnect);
  auto etcd = client->node(node).etcdRequest().send().getEtcd();
  using Answer = capnp::Response<rpc::Etcd::ForfeitLeadershipResults>;
  co_await within(call.deps.timer, kHandOverAnswer,
                  kj::Promise<Answer>(etcd.forfeitLeadershipRequest().send()))
      .ignoreResult();
}

}  // namespace talos::talosctl
