// link: talosctl-commands
// The answers of a hostile node, as talosctl prints them: any message, read as the kind of answer
// that the first byte says, of resources as the type that the second says. The output is text that
// a terminal shows and does not interpret, of a bounded size.
#include <capnp/serialize.h>
#include <kj/debug.h>
#include <string.h>

#include "common/text/plain-text.h"
#include "common/wire/resource-registry.h"
#include "rpc/stream.capnp.h"
#include "talosctl/cli/table-look.h"
#include "talosctl/commands/render-answers.h"
#include "talosctl/configure/apply-configs.h"
#include "talosctl/configure/apply-outcome.h"
#include "talosctl/debug/crash-text.h"
#include "talosctl/views/dependency-graph.h"
#include "talosctl/views/event-row.h"
#include "talosctl/views/link-tree.h"
#include "talosctl/views/resource-view.h"
#include "tests/fuzz/fuzz-target.h"

namespace {

using namespace talos;
using namespace talos::talosctl;

constexpr uint64_t kNow = 1'615'000'000'000'000'000;
// Limits of the output per word received: a row of a table with its blanks; and per answer.
constexpr size_t kMostPerWord = 4096, kMostAlways = 4u << 20;

// Not an exception, which would count as a refusal.
void must(bool holds) {
  if (!holds) __builtin_trap();
}

class HostileAnswer {
 public:
  explicit HostileAnswer(kj::ArrayPtr<const capnp::word> words) : words(words) {}

  // Anything may be thrown, and nothing else may happen.
  template <typename Type, typename F>
  void as(F&& print) const {
    (void)kj::runCatchingExceptions([&]() {
      // Each call has a new reader: the traversal limit is for one reading.
      capnp::FlatArrayMessageReader message(words, options());
      auto text = print(message.getRoot<Type>());
      mustBePlain(text);
      mustBePlain(kj::str(dressed(text, {.columns = 80, .color = false}).asPtr()));
    });
  }
  // Prints the message as a table of two nodes' answers, as YAML and as JSON.
  template <typename Type, typename F>
  void asAnswer(F&& render) const {
    as<Type>([&](auto value) {
      Reply<Type> replies[] = {{"10.0.0.2", value}, {"10.0.0.3", value}};
      return render(kj::arrayPtr(replies, 2));
    });
    // On a terminal a document goes through printableText(): $raw text is the node's own.
    as<Type>([](auto value) { return printableText(yamlAnswer("n", dynamic<Type>(value))); });
    as<Type>([](auto value) { return jsonAnswer("n", dynamic<Type>(value)); });
    as<Type>([](auto value) { return jsonLine("n", dynamic<Type>(value)); });
  }

 private:
  kj::ArrayPtr<const capnp::word> words;

  capnp::ReaderOptions options() const {
    return {.traversalLimitInWords = 4 * words.size() + 64, .nestingLimit = 64};
  }
  void mustBePlain(kj::StringPtr text) const {
    must(text.size() <= kMostAlways + kMostPerWord * words.size());
    auto rest = text.asBytes();
    while (rest.size() > 0) {
      auto character = firstCharacter(rest);
      must(character.plain || rest[0] == '\n' || rest[0] == '\t');
      rest = rest.slice(character.bytes, rest.size());
    }
  }
};

// How one kind of answer is read.
using Read = void (*)(const HostileAnswer& answer);

template <typename Type, auto render>
void readAnswer(const HostileAnswer& answer) {
  answer.asAnswer<Type>(render);
}

template <bool humanize>
void readFile(const HostileAnswer& answer) {
  answer.as<rpc::FileInfo>([](auto file) {
    Table table({"NODE", "MODE", "UID", "GID", "SIZE(B)", "LASTMOD", "NAME"});
    table.row(fileRow("n", file, true, {.humanize = humanize, .now = kNow}));
    return table.render();
  });
}

void readEvent(const HostileAnswer& answer) {
  answer.as<rpc::Event>([](auto event) {
    Table table({"NODE", "EVENT", "SOURCE", "MESSAGE", "ACTOR", "TIME", "MORE", "REST"});
    KJ_IF_MAYBE (row, eventRow("n", event)) table.row(kj::mv(*row));
    return table.render();
  });
}

void readDependencies(const HostileAnswer& answer) {
  answer.as<rpc::Machine::DependenciesResults>(
      [](auto value) { return drawDependencies(value, nullptr); });
}

void readLinks(const HostileAnswer& answer) {
  answer.as<rpc::Resources::ListResults>([](auto list) {
    kj::Vector<DrawnLink> links;
    for (auto resource : list.getResources()) {
      links.add(DrawnLink{resource.getMetadata().getId(),
                          resource.getSpec().template getAs<rpc::LinkStatusSpec>()});
    }
    return drawLinks(links);
  });
}

kj::String renderByCpu(kj::ArrayPtr<const Reply<rpc::Machine::ProcessesResults>> replies) {
  return renderProcesses(replies, SortBy::kCpu);
}
kj::String renderAllSockets(kj::ArrayPtr<const Reply<rpc::Machine::NetstatResults>> replies) {
  auto all = KJ_MAP(r, replies) {
    return SocketsReply{r.node, "ns/pod", r.value};
  };
  return renderSockets(all, {.all = true, .extend = true, .programs = true, .pods = true});
}
kj::String renderCgroupTables(kj::ArrayPtr<const Reply<rpc::Machine::CgroupsResults>> replies) {
  return kj::str(renderCgroups(replies, "memory"), renderCgroups(replies, "cpuset"));
}
kj::String renderServicesNow(kj::ArrayPtr<const Reply<rpc::Services::ListResults>> replies) {
  return renderServices(replies, kNow);
}
void readService(const HostileAnswer& answer) {
  answer.as<rpc::Service>([](auto service) { return renderService("n", service, kNow); });
}

void readCrash(const HostileAnswer& answer) {
  answer.as<rpc::CrashReportSpec>([](auto report) {
    NodeCrash crash{"n", "id", report};
    return kj::str(renderCrash(crash, nullptr), renderCrashes(kj::arrayPtr(&crash, 1)));
  });
}

// A dry run of a config, with its diff.
void readApply(const HostileAnswer& answer) {
  answer.as<rpc::ApplyResult>([](auto result) {
    ApplySettings settings{};
    settings.dryRun = true;
    auto outcome = renderOutcome("n", result, settings, false, false);
    return kj::str(renderWarnings("n", result), outcome.asPtr());
  });
}

// New ones at the end: the corpus has their numbers. Any other number is a resource.
constexpr Read kKinds[] = {
    readAnswer<rpc::Version, renderServerVersions>,
    readAnswer<rpc::Status, renderStatus>,
    readAnswer<rpc::Machine::MemoryResults, renderMemory>,
    readAnswer<rpc::Machine::MemoryResults, renderMemoryVerbose>,
    readAnswer<rpc::Machine::MountsResults, renderMounts>,
    readAnswer<rpc::Machine::StatsResults, renderStats>,
    readAnswer<rpc::Machine::TimeResults, renderTimes>,
    readAnswer<rpc::Machine::ProcessesResults, renderByCpu>,
    readAnswer<rpc::Machine::NetstatResults, renderAllSockets>,
    readAnswer<rpc::Machine::CgroupsResults, renderCgroupTables>,
    readDependencies,
    readAnswer<rpc::Containers::ListResults, renderContainers>,
    readAnswer<rpc::Containers::StatsResults, renderPodStats>,
    readAnswer<rpc::Containers::ImagesResults, renderImages>,
    readAnswer<rpc::Network::InterfacesResults, renderInterfaces>,
    readAnswer<rpc::Network::RoutesResults, renderRoutes>,
    readAnswer<rpc::Storage::DisksResults, renderDisks>,
    readAnswer<rpc::Storage::ReadMetaResults, renderMeta>,
    readAnswer<rpc::Services::ListResults, renderServicesNow>,
    readService,
    readEvent,
    readFile<false>,
    readFile<true>,
    readLinks,
    readCrash,
    readApply,
};

void readResource(const HostileAnswer& answer, const ResourceType& type) {
  answer.as<rpc::Resource>([&](auto resource) {
    auto table = resourceTable(type, true);
    table.row(resourceRow(type, "n", resource, true, ChangeKind::kCreated));
    return table.render();
  });
  answer.as<rpc::Resource>(
      [&](auto resource) { return printableText(resourceYaml(type, "n", resource)); });
  answer.as<rpc::Resource>([&](auto resource) { return resourceJson(type, "n", resource); });
}

}  // namespace

FUZZ_TARGET(render) {
  static const Registry registry;
  if (size < 2) return 0;
  auto words = kj::heapArray<capnp::word>((size - 2) / sizeof(capnp::word));
  memcpy(words.begin(), data + 2, words.asBytes().size());
  HostileAnswer answer(words);
  if (data[0] >= kj::size(kKinds)) {
    auto types = registry.types();
    readResource(answer, types[data[1] % types.size()]);
  } else {
    kKinds[data[0]](answer);
  }
  return 0;
}
