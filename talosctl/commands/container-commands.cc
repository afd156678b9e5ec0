// containers, restart, image list, image pull; stats -k is with stats (machine-commands.cc), logs
// -k with logs.
#include <capnp/message.h>

#include "common/base/date.h"
#include "common/text/size.h"
#include "common/wire/system-images.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/progress-lines.h"
#include "talosctl/client/long-calls.h"
#include "talosctl/commands/all-commands.h"
#include "talosctl/commands/render-answers.h"

namespace talos::talosctl {

namespace {

using rpc::Containers;

Containers::Client containersOf(rpc::Node::Client node) {
  return node.containersRequest().send().getContainers();
}

kj::Promise<int> runContainers(Invocation& call) {
  return tabulate<Containers::ListResults>(
      call,
      [kubernetes = call.on("kubernetes")](rpc::Node::Client node) {
        auto request = containersOf(kj::mv(node)).listRequest();
        request.setKubernetes(kubernetes);
        return request.send();
      },
      [](Invocation&, kj::ArrayPtr<const Reply<Containers::ListResults>> replies) {
        return renderContainers(replies);
      });
}

kj::Promise<int> runRestart(Invocation& call) {
  kj::StringPtr id = call.arguments[0];
  call.done = kj::str("restarted ", id);
  return silently<Containers::RestartResults>(
      call, [id, kubernetes = call.on("kubernetes")](rpc::Node::Client node) {
        auto request = containersOf(kj::mv(node)).restartRequest();
        request.setId(id);
        request.setKubernetes(kubernetes);
        return request.send();
      });
}

using Images = Containers::ImagesResults;

// Owns an answer that is built here from a node's answer.
struct MadeAnswer final : public capnp::ResponseHook {
  capnp::MallocMessageBuilder message;
};

// Returns the images with this digest; no images if there is no digest.
capnp::Response<Images> imagesWith(kj::Maybe<kj::String> digest, Images::Reader all) {
  kj::Vector<rpc::ContainerImage::Reader> chosen;
  for (auto image : all.getImages()) {
    if (digest.map([&](auto& d) { return d == image.getDigest(); }).orDefault(false)) {
      chosen.add(image);
    }
  }
  auto made = kj::heap<MadeAnswer>();
  auto results = made->message.initRoot<Images>();
  auto images = results.initImages(chosen.size());
  for (auto i : kj::indices(chosen)) images.setWithCaveats(i, chosen[i]);
  return capnp::Response<Images>(results.asReader(), kj::mv(made));
}

// Returns the images of a namespace. All images are in one store, that of the CRI. Among the
// namespaces that today's clients name, "system" has the image that the node itself runs, and
// "inmem" is empty: the programs that a node needs before the store are in the node's own image.
kj::Promise<capnp::Response<Images>> askImages(rpc::Node::Client node, kj::StringPtr space) {
  auto response = co_await containersOf(node).imagesRequest().send();
  if (space == "cri") co_return kj::mv(response);
  kj::Maybe<kj::String> digest;
  if (space == "system") digest = co_await systemImageDigest(node, response.getImages());
  co_return imagesWith(kj::mv(digest), response);
}

kj::Promise<int> runImages(Invocation& call) {
  return tabulate<Images>(
      call,
      [space = call.text("namespace")](rpc::Node::Client node) {
        return askImages(kj::mv(node), space);
      },
      [](Invocation&, kj::ArrayPtr<const Reply<Images>> replies) { return renderImages(replies); });
}

// Shows the elapsed time on a terminal, because a node does not report its progress. Never
// resolves.
kj::Promise<Answers<Containers::PullResults>> countSeconds(Invocation& call, Progress& progress,
                                                           kj::StringPtr image) {
  if (!call.deps.console.drawsOnErr()) co_await kj::Promise<void>(kj::NEVER_DONE);
  for (auto took = 0 * kj::SECONDS;; took += 1 * kj::SECONDS) {
    for (auto i : kj::zeroTo(progress.size())) {
      progress.set(i, kj::str("pulling ", image, ", ", durationText(took)));
    }
    co_await call.deps.timer.afterDelay(1 * kj::SECONDS);
  }
}

kj::Promise<int> runPull(Invocation& call) {
  kj::StringPtr image = call.arguments[0];
  auto session = co_await openSession(call);
  Progress progress(call.deps.console, session->client.nodes());
  auto& timer = call.deps.timer;
  auto pending = askAll<Containers::PullResults>(*session, [&timer, image](rpc::Node::Client node) {
    auto request = containersOf(node).pullRequest();
    request.setImage(image);
    kj::Promise<capnp::Response<Containers::PullResults>> answer = request.send();
    return whileAnswering(timer, kj::mv(node), kj::mv(answer));
  });
  call.done = kj::str("pulled ", image);
  co_return concludeDone(call, co_await pending.exclusiveJoin(countSeconds(call, progress, image)));
}

}  // namespace

kj::String renderContainers(kj::ArrayPtr<const Reply<Containers::ListResults>> replies) {
  Table table({"NODE", "NAMESPACE", "ID", "IMAGE", "PID", "STATUS"});
  for (auto& r : replies) {
    for (auto c : r.value.getContainers()) {
      bool member = c.getPodId().size() > 0 && c.getPodId() != c.getId();
      table.add(r.node, c.getNamespace(), kj::str(member ? "└─ " : "", c.getId()), c.getImage(),
                c.getPid(), c.getStatus());
    }
  }
  return table.render();
}

kj::String renderPodStats(kj::ArrayPtr<const Reply<Containers::StatsResults>> replies) {
  constexpr uint64_t kMillion = 1'000'000;
  Table table({"NODE", "NAMESPACE", "ID", "MEMORY(MB)", "CPU"});
  for (auto& r : replies) {
    for (auto s : r.value.getStats()) {
      bool member = s.getPodId().size() > 0 && s.getPodId() != s.getId();
      table.add(r.node, s.getNamespace(), kj::str(member ? "└─ " : "", s.getId()),
                fixed(s.getMemoryUsage(), kMillion, 2), s.getCpuUsageNs());
    }
  }
  return table.render();
}

kj::String renderImages(kj::ArrayPtr<const Reply<Containers::ImagesResults>> replies) {
  Table table({"NODE", "IMAGE", "DIGEST", "SIZE", "CREATED"});
  for (auto& r : replies) {
    for (auto i : r.value.getImages()) {
      table.add(r.node, i.getName(), i.getDigest(), decimalSize(i.getSize()),
                dateText(kj::UNIX_EPOCH + i.getCreated() * kj::NANOSECONDS));
    }
  }
  return table.render();
}

void addContainerCommands(Command& root) {
  auto kubernetes = [](Command& command, kj::StringPtr help) {
    command.flag({.name = "kubernetes", .letter = "k", .help = help});
    command.flag({.name = "use-cri", .letter = "c", .help = "has no effect", .hidden = true});
  };
  auto& containers = root.add("containers", "List the containers of nodes");
  containers.aliases = {"c"};
  containers.details =
      "Without --kubernetes: the containers of the node itself. Most services of a node are "
      "processes: "
      "use talosctl service.";
  kubernetes(containers, "pods and their containers");
  addOutputFlag(containers);
  containers.run = runContainers;

  auto& restart = root.add("restart", "Restart a container");
  restart.arguments = "<id>";
  restart.least = restart.most = 1;
  restart.details =
      "The id is that of a service, or one of talosctl containers. It gets SIGTERM, and the node "
      "or the kubelet starts it again.";
  kubernetes(restart, "a container of a pod, or a pod");
  restart.timeout = 1 * kj::MINUTES;
  addOutputFlag(restart);
  restart.run = runRestart;

  auto& image = root.add("image", "List and pull container images");
  auto& list = image.add("list", "List the images of nodes");
  list.aliases = {"ls", "l"};
  list.flag({.name = "namespace",
             .kind = FlagKind::kText,
             .fallback = "cri",
             .help = "system: images that the node itself runs; inmem: none",
             .choices = {"system", "cri", "inmem"}});
  addOutputFlag(list);
  list.run = runImages;
  auto& pull = image.add("pull", "Pull an image on nodes");
  pull.aliases = {"p"};
  pull.arguments = "<image>";
  pull.least = pull.most = 1;
  pull.details = "Mirrors, credentials and CAs are those of machine.registries.";
  pull.timeout = 21 * kj::MINUTES;  // the node's own limit is 20 minutes
  addOutputFlag(pull);
  pull.run = runPull;
}

}  // namespace talos::talosctl
