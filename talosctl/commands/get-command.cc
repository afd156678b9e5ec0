// get <type> [<id>]
#include <map>
#include <string>

#include "common/base/error.h"
#include "common/base/resource.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/table-look.h"
#include "talosctl/client/long-calls.h"
#include "talosctl/commands/all-commands.h"
#include "talosctl/views/json-path.h"
#include "talosctl/views/link-tree.h"
#include "talosctl/views/resource-view.h"

namespace talos::talosctl {

namespace {

constexpr kj::StringPtr kJsonPath = "jsonpath="_kj;

// A manifest that the users' documents list and nodes do not have: the reason, and the manifest or
// command that replaces it.
struct AbsentManifest {
  kj::StringPtr id, reason;
};
constexpr AbsentManifest kAbsentManifests[] = {
    {"01-csr-approver-role-binding"_kj,
     "kubed approves the certificates of workers' kubelets; a binding for the bootstrap token "
     "would do so for any name"_kj},
    {"02-kube-system-sa-role-binding"_kj,
     "each part of the system has a service account with the rights that it needs; the binding "
     "would make every pod with the default account of kube-system an administrator of the "
     "cluster"_kj},
    {"03-default-pod-security-policy"_kj,
     "Kubernetes has no pod security policies from 1.25 on; Pod Security admission does their "
     "work"_kj},
};

// Returns the template of -o jsonpath=…; nullptr for another format.
kj::Maybe<JsonPathTemplate> jsonPathOf(const Invocation& call) {
  auto text = call.text("output");
  if (!text.startsWith(kJsonPath)) return nullptr;
  return JsonPathTemplate(text.slice(kJsonPath.size()));
}

// Prints resources in one format; prints the header of a table once.
class Listing {
 public:
  Listing(Invocation& call, const ResourceType& type, bool watch)
      : call(call),
        type(type),
        watch(watch),
        format(formatOf(call)),
        path(jsonPathOf(call)),
        table(resourceTable(type, watch)),
        documents(call, format) {
    bool drawn = watch && format == Format::kTable && path == nullptr;
    if (drawn && call.deps.console.drawsOnOut()) live.emplace(call.deps.console);
  }

  void print(kj::StringPtr node, rpc::Resource::Reader resource,
             ChangeKind change = ChangeKind::kNone) {
    KJ_IF_MAYBE (wanted, path) {
      auto json = resourceJson(type, node, resource, change);
      call.outBytes(kj::str(wanted->evaluate(kube::readJson(json, "the resource")), "\n"));
      return;
    }
    switch (format) {
      case Format::kTable: {
        auto row = resourceRow(type, node, resource, watch, change);
        if (live != nullptr) {
          auto metadata = resource.getMetadata();
          auto& shown =
              rows[kj::str(node, ' ', metadata.getNamespace(), ' ', metadata.getId()).cStr()];
          for (auto& cell : shown) rowBytes -= cell.size();
          for (auto& cell : row) rowBytes += cell.size();
          shown = kj::mv(row);
          requireWatchable(rowBytes);
          return;
        }
        table.row(kj::mv(row));
        if (watch) call.out(table.render());
        return;
      }
      case Format::kYaml:
        return documents.text(resourceYaml(type, node, resource, change));
      case Format::kJson:
        return documents.text(resourceJson(type, node, resource, change));
    }
  }

  // Shows a batch of changes: on a terminal in place, with a row for each resource.
  void shown() {
    KJ_IF_MAYBE (lines, live) {
      auto all = resourceTable(type, watch);
      for (auto& [key, row] : rows) {
        all.row(KJ_MAP(cell, row) { return kj::str(cell); });
      }
      lines->show(all.render(), lookOf(call));
    }
  }
  // Prints the header of a table without rows only if no node failed.
  void finish(bool failed) {
    if (failed && table.empty()) return;
    if (format == Format::kTable && path == nullptr) outTable(call, table.render());
  }
  Format form() const { return format; }

 private:
  Invocation& call;
  const ResourceType& type;
  bool watch;
  Format format;
  kj::Maybe<JsonPathTemplate> path;
  Table table;
  Documents documents;
  kj::Maybe<LiveLines> live;
  std::map<std::string, kj::Array<kj::String>> rows;  // rows of the table
  size_t rowBytes = 0;
};

class ResourcePrinter final : public rpc::ResourceSink::Server {
 public:
  ResourcePrinter(Invocation& call, Listing& printer, kj::StringPtr node)
      : call(call), printer(printer), node(kj::str(node)) {}

  kj::Promise<void> snapshot(SnapshotContext context) override {
    view.snapshot(context.getParams().getResources(), show());
    printer.shown();
    return kj::READY_NOW;
  }
  kj::Promise<void> changes(ChangesContext context) override {
    for (auto change : context.getParams().getChanges()) view.change(change, show());
    printer.shown();
    return kj::READY_NOW;
  }
  kj::Promise<void> lagged(LaggedContext context) override {
    call.err(kj::str(node, ": ", context.getParams().getMissed(),
                     " changes were missed; the current state follows\n"));
    return kj::READY_NOW;
  }

 private:
  Invocation& call;
  Listing& printer;
  kj::String node;
  WatchView view;

  WatchView::Show show() {
    return [this](ChangeKind change, rpc::Resource::Reader resource) {
      printer.print(node, resource, change);
    };
  }
};

// Returns the capability that serves the type: secrets have a separate capability.
rpc::Resources::Client resourcesOf(rpc::Node::Client node, const ResourceType& type) {
  if (type.sensitive) return node.sensitiveResourcesRequest().send().getResources();
  return node.resourcesRequest().send().getResources();
}

struct Wanted {
  const ResourceType& type;
  kj::StringPtr namespace_, id;
  void fill(rpc::Kind::Builder kind) const {
    kind.setNamespace(namespace_);
    kind.setType(type.name);
  }
};

kj::Promise<int> watch(Invocation& call, Session& session, const Wanted& wanted, Listing& printer) {
  return streamAll(
      call, session, printer.form(),
      [&call, &wanted, &printer](kj::StringPtr name, rpc::Node::Client node) -> kj::Promise<void> {
        auto request = resourcesOf(kj::mv(node), wanted.type).watchRequest();
        wanted.fill(request.initKind());
        request.setId(wanted.id);
        request.setSink(kj::heap<ResourcePrinter>(call, printer, name));
        return request.send().ignoreResult();
      });
}

// Returns why no node has a resource of this id, or nullptr if a node can have it.
kj::Maybe<kj::StringPtr> reasonOfAbsence(const Wanted& wanted) {
  if (wanted.type.name != typeName<rpc::ManifestSpec>()) return nullptr;
  for (auto& absent : kAbsentManifests) {
    if (absent.id == wanted.id) return absent.reason;
  }
  return nullptr;
}

// Prints one node's resources as soon as they arrive.
kj::Promise<void> fetch(const Wanted& wanted, Listing& printer, kj::StringPtr name,
                        rpc::Node::Client node) {
  auto resources = resourcesOf(kj::mv(node), wanted.type);
  if (wanted.id.size() > 0) {
    auto request = resources.getRequest();
    wanted.fill(request.initKind());
    request.setId(wanted.id);
    try {
      auto answer = co_await request.send();
      printer.print(name, answer.getResource());
    } catch (const kj::Exception& e) {
      if (kindOf(e) != ErrorKind::kNotFound) throw;
      KJ_IF_MAYBE (reason, reasonOfAbsence(wanted)) {
        fail(ErrorKind::kNotFound, kj::str("there is no manifest \"", wanted.id, "\": ", *reason));
      }
      throw;
    }
  } else {
    auto request = resources.listRequest();
    wanted.fill(request.initKind());
    auto answer = co_await request.send();
    for (auto resource : answer.getResources()) printer.print(name, resource);
  }
}

// Draws the links of each node as a tree.
kj::Promise<int> drawTree(Invocation& call, const Wanted& wanted) {
  if (wanted.type.name != typeName<rpc::LinkStatusSpec>() || wanted.id.size() > 0 ||
      call.on("watch")) {
    failUsage("--output=tree works only for all links at once; use \"get links -o tree\"");
  }
  auto session = co_await openSession(call);
  auto answers =
      co_await askAll<rpc::Resources::ListResults>(*session, [&wanted](rpc::Node::Client node) {
        auto request = resourcesOf(kj::mv(node), wanted.type).listRequest();
        wanted.fill(request.initKind());
        return request.send();
      });
  for (auto& answer : answers.good) {
    kj::Vector<DrawnLink> links;
    for (auto resource : answer.value.getResources()) {
      links.add(DrawnLink{resource.getMetadata().getId(),
                          resource.getSpec().getAs<rpc::LinkStatusSpec>()});
    }
    call.out(kj::str(answer.node, "\n", drawLinks(links)));
  }
  co_return conclude(call, answers.failures, answers.good.size(), Partial::kIsSuccess);
}

kj::Promise<int> runGet(Invocation& call) {
  Registry registry;
  Wanted wanted{.type = registry.find(call.arguments[0]),
                .namespace_ = call.text("namespace"),
                .id = call.arguments.size() > 1 ? kj::StringPtr(call.arguments[1]) : ""_kj};
  if (call.text("output") == "tree") co_return co_await drawTree(call, wanted);
  bool watching = call.on("watch");
  Listing printer(call, wanted.type, watching);
  auto session = co_await openSession(call);
  session->endless = watching;
  if (watching) co_return co_await watch(call, *session, wanted, printer);
  auto& timer = call.deps.timer;
  auto deadline = session->deadline;
  int status = co_await streamAll(
      call, *session, printer.form(), [&](kj::StringPtr name, rpc::Node::Client node) {
        return within(timer, deadline, fetch(wanted, printer, name, kj::mv(node)));
      });
  printer.finish(status != 0);
  co_return status;
}

}  // namespace

void addResourceCommands(Command& root) {
  auto& get = root.add("get", "Show resources of nodes");
  get.aliases = {"g"};
  get.arguments = "<type> [<id>]";
  get.least = 1;
  get.most = 2;
  get.details =
      "The type is a full name or an alias; \"get rd\" lists the types of a node. "
      "-o jsonpath='{.spec.addresses[0]}' prints a part of each resource, as with kubectl.";
  get.flag({.name = "namespace",
            .kind = FlagKind::kText,
            .help = "namespace (default: that of the type)"});
  get.flag({.name = "watch", .letter = "w", .help = "watch for changes"});
  get.flag({.name = "output",
            .letter = "o",
            .kind = FlagKind::kText,
            .fallback = "table",
            .help = "output format; tree is for links only",
            .choices = {"table", "yaml", "json", "tree", kJsonPath}});
  get.interrupt = Interrupt::kIsSuccess;
  get.run = runGet;
}

}  // namespace talos::talosctl
