// version, status, memory, mounts, stats, time
#include "talosctl/commands/render-answers.h"

#include <string.h>

#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/client-version.h"
#include "talosctl/client/answer-output.h"
#include "talosctl/commands/all-commands.h"

namespace talos::talosctl {

namespace {

constexpr uint64_t kMega = 1'000'000;

using rpc::Machine;

kj::Promise<int> runMemory(Invocation& call) {
  return tabulate<Machine::MemoryResults>(
      call,
      [](rpc::Node::Client node) {
        return node.machineRequest().send().getMachine().memoryRequest().send();
      },
      [](Invocation& call, kj::ArrayPtr<const Reply<Machine::MemoryResults>> replies) {
        return call.on("verbose") ? renderMemoryVerbose(replies) : renderMemory(replies);
      });
}

kj::Promise<int> runMounts(Invocation& call) {
  return tabulate<Machine::MountsResults>(
      call,
      [](rpc::Node::Client node) {
        return node.machineRequest().send().getMachine().mountsRequest().send();
      },
      [](Invocation&, kj::ArrayPtr<const Reply<Machine::MountsResults>> replies) {
        return renderMounts(replies);
      });
}

kj::Promise<int> runStats(Invocation& call) {
  using rpc::Containers;
  if (call.on("kubernetes")) {
    return tabulate<Containers::StatsResults>(
        call,
        [](rpc::Node::Client node) {
          return node.containersRequest().send().getContainers().statsRequest().send();
        },
        [](Invocation&, kj::ArrayPtr<const Reply<Containers::StatsResults>> replies) {
          return renderPodStats(replies);
        });
  }
  return tabulate<Machine::StatsResults>(
      call,
      [](rpc::Node::Client node) {
        return node.machineRequest().send().getMachine().statsRequest().send();
      },
      [](Invocation&, kj::ArrayPtr<const Reply<Machine::StatsResults>> replies) {
        return renderStats(replies);
      });
}

// Prints the client's version also if no node answers.
kj::Promise<int> runVersion(Invocation& call) {
  auto format = formatOf(call);
  auto client = clientVersion();
  if (call.on("short") && format != Format::kTable) {
    failUsage("--short works with the table only; it cannot be combined with --output");
  }
  bool json = format == Format::kJson;
  auto document = [&](kj::ArrayPtr<const kj::String> servers) {
    call.outBytes(json ? versionsJson(client, servers) : versionsYaml(client, servers));
  };
  if (format == Format::kTable) {
    call.out(call.on("short") ? kj::str("Client:\nTalos ", client.tag, "\n")
                              : renderClientVersion(client));
  } else if (call.on("client")) {
    document(nullptr);
  }
  if (call.on("client")) co_return 0;
  kj::Maybe<kj::Exception> failure;
  Answers<rpc::Version> answers;
  try {
    auto session = co_await openSession(call);
    answers = co_await askAll<rpc::Version>(*session, [](rpc::Node::Client node) {
      return node.machineRequest().send().getMachine().versionRequest().send();
    });
  } catch (const kj::Exception& e) {
    failure = kj::cp(e);
  }
  if (format != Format::kTable) {
    kj::Vector<kj::String> servers;
    for (auto& a : answers.good) {
      auto value = dynamic<rpc::Version>(a.value);
      servers.add(json ? jsonAnswer(a.node, value) : yamlAnswer(a.node, value));
    }
    for (auto& f : answers.failures) servers.add(json ? jsonFailure(f, 4) : yamlFailure(f));
    document(servers);
  } else if (answers.good.size() > 0) {
    auto replies = KJ_MAP(a, answers.good) {
      return Reply<rpc::Version>{a.node, a.value};
    };
    call.out(kj::str("Server:\n", renderServerVersions(replies)));
  }
  KJ_IF_MAYBE (e, failure) kj::throwFatalException(kj::mv(*e));
  co_return conclude(call, answers.failures, answers.good.size(), Partial::kIsSuccess);
}

kj::Promise<int> runStatus(Invocation& call) {
  return tabulate<rpc::Status>(
      call,
      [](rpc::Node::Client node) {
        return node.machineRequest().send().getMachine().statusRequest().send();
      },
      [](Invocation&, kj::ArrayPtr<const Reply<rpc::Status>> replies) {
        return renderStatus(replies);
      });
}

// Returns the stage's name in the schema, "shuttingDown"; a number for a stage that this version
// does not know.
kj::String stageName(rpc::Status::Stage stage) {
  capnp::DynamicEnum value(capnp::Schema::from<rpc::Status::Stage>(), static_cast<uint16_t>(stage));
  KJ_IF_MAYBE (known, value.getEnumerant()) return kj::str(known->getProto().getName());
  return kj::str(value.getRaw());
}

uint64_t fieldOf(rpc::Machine::MemoryResults::Reader memory, kj::StringPtr name) {
  for (auto field : memory.getFields()) {
    if (field.getName() == name) return field.getValue();
  }
  return 0;
}

kj::String versionBlock(kj::StringPtr tag, kj::StringPtr sha, kj::StringPtr built,
                        kj::StringPtr compiler, kj::StringPtr os, kj::StringPtr arch) {
  return kj::str("\tTag:         ", printable(tag), "\n\tSHA:         ", printable(sha),
                 "\n\tBuilt:       ", printable(built), "\n\tGo version:  ", printable(compiler),
                 "\n\tOS/Arch:     ", printable(os), "/", printable(arch), "\n");
}

// Returns true for "10.0.0.9:/data" and "//10.0.0.9/share".
bool isOfServer(kj::StringPtr filesystem) {
  return filesystem.startsWith("//") || strstr(filesystem.cStr(), ":/") != nullptr;
}

}  // namespace

kj::String renderMemory(kj::ArrayPtr<const Reply<Machine::MemoryResults>> replies) {
  Table table({"NODE", "TOTAL", "USED", "FREE", "SHARED", "BUFFERS", "CACHE", "AVAILABLE"});
  for (auto& r : replies) {
    auto of = [&](kj::StringPtr name) { return fieldOf(r.value, name); };
    auto total = of("MemTotal"), rest = of("MemFree") + of("Cached") + of("Buffers");
    table.add(r.node, total / 1024, (total > rest ? total - rest : 0) / 1024, of("MemFree") / 1024,
              of("Shmem") / 1024, of("Buffers") / 1024, of("Cached") / 1024,
              of("MemAvailable") / 1024);
  }
  return table.render();
}

kj::String renderMemoryVerbose(kj::ArrayPtr<const Reply<Machine::MemoryResults>> replies) {
  kj::Vector<kj::String> lines;
  for (auto& r : replies) {
    lines.add(kj::str("NODE: ", printable(r.node), "\n"));
    for (auto field : r.value.getFields()) {
      lines.add(kj::str(printable(field.getName()), ": ", field.getValue(),
                        field.getUnit().size() > 0 ? " " : "", printable(field.getUnit()), "\n"));
    }
  }
  return kj::strArray(lines, "");
}

kj::String renderMounts(kj::ArrayPtr<const Reply<Machine::MountsResults>> replies) {
  constexpr uint64_t kGiga = 1'000'000'000;
  Table table({"NODE", "FILESYSTEM", "SIZE(GB)", "USED(GB)", "AVAILABLE(GB)", "PERCENT USED",
               "MOUNTED ON"});
  for (auto& r : replies) {
    for (auto mount : r.value.getMounts()) {
      auto size = mount.getSize(), available = mount.getAvailable();
      // The node does not query file servers for sizes; other mounts without a size hold no data.
      if (size == 0 && isOfServer(mount.getFilesystem())) {
        table.add(r.node, mount.getFilesystem(), "-", "-", "-", "-", mount.getMountedOn());
      }
      if (size == 0) continue;
      auto used = size > available ? size - available : 0;
      auto percent =
          uint64_t((unsigned __int128)(used) * 1'000'000 / size);  // in 1/10000 of a percent
      table.add(r.node, mount.getFilesystem(), fixed(size, kGiga, 2), fixed(used, kGiga, 2),
                fixed(available, kGiga, 2), kj::str(fixed(percent, 10'000, 2), "%"),
                mount.getMountedOn());
    }
  }
  return table.render();
}

kj::String renderStats(kj::ArrayPtr<const Reply<Machine::StatsResults>> replies) {
  Table table({"NODE", "NAMESPACE", "ID", "MEMORY(MB)", "CPU"});
  for (auto& r : replies) {
    for (auto stat : r.value.getStats()) {
      table.add(r.node, stat.getNamespace(), stat.getId(), fixed(stat.getMemoryUsage(), kMega, 2),
                stat.getCpuUsageNs());
    }
  }
  return table.render();
}

kj::String renderClientVersion(const ClientVersion& v) {
  return kj::str("Client:\n", versionBlock(v.tag, v.sha, v.built, v.compiler, v.os, v.arch), "\n");
}

kj::String renderServerVersions(kj::ArrayPtr<const Reply<rpc::Version>> replies) {
  kj::Vector<kj::String> blocks;
  for (auto& r : replies) {
    auto v = r.value;
    blocks.add(kj::str("\tNODE:        ", printable(r.node), "\n",
                       versionBlock(v.getTag(), v.getSha(), v.getBuilt(), v.getCompiler(),
                                    v.getOs(), v.getArch())));
  }
  return kj::strArray(blocks, "");
}

namespace {

// Returns the state of the newest change of the config if it is on trial, or went back.
kj::String trialText(rpc::ConfigTrial::Reader trial) {
  using State = rpc::ConfigTrial::State;
  switch (trial.getState()) {
    case State::TRYING: {
      auto left = durationText(static_cast<int64_t>(trial.getLeftMs() / 1000) * kj::SECONDS);
      return kj::str("the config is on trial: trying, gives up in ", left,
                     trial.getLacks().size() > 0 ? ": " : "", trial.getLacks());
    }
    case State::REVERTING:
      return kj::str("the previous config comes back: ", trial.getReason());
    case State::REVERTED:
      return kj::str("the last change of the config went back: ", trial.getReason());
    default:
      return kj::String();
  }
}

}  // namespace

kj::String renderStatus(kj::ArrayPtr<const Reply<rpc::Status>> replies) {
  Table table({"NODE", "STAGE", "SEQUENCE", "PHASE", "PROBLEM"});
  for (auto& r : replies) {
    auto stage = stageName(r.value.getStage());
    kj::Vector<kj::String> problems;
    for (auto problem : r.value.getProblems()) problems.add(kj::str(problem));
    if (auto left = r.value.getRevertsInMs()) {
      problems.add(
          kj::str("a config is on trial; reverting in ", durationText(left / 1000 * kj::SECONDS)));
    }
    auto trial = trialText(r.value.getConfigTrial());
    if (trial.size() > 0) problems.add(kj::mv(trial));
    if (auto hanging = r.value.getHangingReads()) {
      problems.add(kj::str("reads that hang: ", hanging, "; a disk or a mount does not answer"));
    }
    table.add(r.node, stage, r.value.getSequence(), r.value.getPhase(),
              problems.size() > 0 ? kj::StringPtr(problems[0]) : ""_kj);
    for (size_t i = 1; i < problems.size(); ++i) table.add(r.node, "", "", "", problems[i]);
  }
  return table.render();
}

void addMachineCommands(Command& root) {
  auto& version = root.add("version", "Print the version of the client and of the nodes");
  version.flag({.name = "client", .help = "show only the client's version; needs no node"});
  version.flag({.name = "short", .help = "show the client's version in one line"});
  version.flag({.name = "json", .help = "the same as --output=json"});
  addOutputFlag(version);
  addInsecureFlags(version);
  version.run = runVersion;

  auto& status = root.add("status", "Show the stage of nodes and their problems");
  status.details = "Use --insecure for a node that has no machine config yet.";
  addOutputFlag(status);
  addInsecureFlags(status);
  status.run = runStatus;

  auto& memory = root.add("memory", "Show memory usage in MiB");
  memory.aliases = {"m", "free"};
  memory.flag({.name = "verbose", .letter = "v", .help = "show every line of /proc/meminfo"});
  addOutputFlag(memory);
  memory.run = runMemory;

  auto& mounts = root.add("mounts", "List mounts and their usage");
  mounts.aliases = {"mount"};
  addOutputFlag(mounts);
  mounts.run = runMounts;

  auto& stats = root.add("stats", "Show memory and CPU time of the services");
  stats.flag({.name = "kubernetes", .letter = "k", .help = "show pods and their containers"});
  stats.flag({.name = "use-cri", .letter = "c", .help = "has no effect", .hidden = true});
  addOutputFlag(stats);
  stats.run = runStats;
}

namespace {

using Times = rpc::Machine::TimeResults;

// Includes the fraction, because users compare clocks.
kj::String exactTime(int64_t nanoseconds) {
  if (nanoseconds < 0) return kj::str("before 1970");
  constexpr uint64_t kSecond = 1'000'000'000;
  auto whole = rfc3339(static_cast<uint64_t>(nanoseconds));  // …:11Z
  auto fraction = kj::str(kSecond + static_cast<uint64_t>(nanoseconds) % kSecond);
  return kj::str(whole.slice(0, whole.size() - 1), ".", fraction.slice(1), "Z");
}

kj::Promise<int> runTime(Invocation& call) {
  return tabulate<Times>(
      call,
      [server = kj::str(call.text("check"))](rpc::Node::Client node) {
        auto request = node.machineRequest().send().getMachine().timeRequest();
        request.setServer(server);
        return request.send();
      },
      [](Invocation&, kj::ArrayPtr<const Reply<Times>> replies) { return renderTimes(replies); });
}

}  // namespace

kj::String renderTimes(kj::ArrayPtr<const Reply<Times>> replies) {
  Table table({"NODE", "NTP-SERVER", "NODE-TIME", "NTP-SERVER-TIME"});
  for (auto& r : replies) {
    auto time = r.value.getAnswer();
    table.add(r.node, time.getServer(), exactTime(time.getLocal()), exactTime(time.getRemote()));
  }
  return table.render();
}

void addTimeCommands(Command& root) {
  auto& time = root.add("time", "Compare the clocks of nodes with an NTP server");
  time.flag({.name = "check",
             .letter = "c",
             .kind = FlagKind::kText,
             .help = "NTP server to compare with, instead of the one that the node follows"});
  addOutputFlag(time);
  time.run = runTime;
}

}  // namespace talos::talosctl
