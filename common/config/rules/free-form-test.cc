#include "common/config/rules/free-form.h"

#include <capnp/message.h>
#include <gmock/gmock.h>

#include <string>

namespace talos::config {
namespace {

using testing::HasSubstr;
using testing::Not;

// Returns the mistakes, one a line, or what is derived from the value.
std::string shown(const FreeFormValue& value) {
  std::string lines;
  for (auto& mistake : value.mistakes) {
    auto line = kj::str(mistake.path, ": ", mistake.message, mistake.hint.size() > 0 ? "; " : "",
                        mistake.hint);
    lines += (lines.empty() ? "" : "\n") + std::string(line.cStr());
  }
  return value.mistakes.empty() ? value.derived.cStr() : lines;
}

constexpr kj::StringPtr kPod =
    "apiVersion: v1\nkind: Pod\nmetadata: {name: a.b}\nspec: {containers: [{name: c}]}\n"_kj;

// Catches: a pod that the kubelet refuses; an id other than Talos'.
TEST(FreeForm, StaticPods) {
  EXPECT_EQ("default-a.b", shown(readStaticPod(kPod)));
  EXPECT_EQ("kube-system-a",
            shown(readStaticPod("{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: "
                                "kube-system}, spec: {containers: [{name: c}]}}")));
  EXPECT_EQ(
      ": not a pod: expected a mapping (\"key: value\" lines); write apiVersion: v1, kind: "
      "Pod, metadata and spec",
      shown(readStaticPod("[]")));
  EXPECT_EQ(
      "apiVersion: \"v2\" is not v1; use v1\n"
      "kind: missing; use Pod\n"
      "metadata.name: \"../a\" is not a valid name of a pod; use lower-case letters, digits, - and "
      ".\n"
      "metadata.namespace: \"A\" is not a valid name of a namespace; use lower-case letters, "
      "digits and -\n"
      "spec.containers: the pod has no containers; for example containers: [{name: a, image: "
      "registry.k8s.io/pause:3.10}]",
      shown(readStaticPod("apiVersion: v2\nmetadata: {name: ../a, namespace: A}\n")));
}

// Catches: a profile with which containerd starts no container.
TEST(FreeForm, SeccompProfiles) {
  EXPECT_EQ("{\n  \"defaultAction\": \"SCMP_ACT_LOG\"\n}\n",
            shown(readSeccompProfile("defaultAction: SCMP_ACT_LOG")));
  EXPECT_THAT(shown(readSeccompProfile("text")), HasSubstr(": not a profile: expected a mapping"));
  EXPECT_THAT(
      shown(readSeccompProfile("{defaultAction: LOG, syscalls: [{names: [], action: ALLOW}]}")),
      testing::MatchesRegex(
          "defaultAction: \"LOG\" is not an action of seccomp; use one of SCMP_ACT_ALLOW, .*\n"
          "syscalls\\[0\\].names: no system calls; for example names: \\[mkdir, mkdirat\\]\n"
          "syscalls\\[0\\].action: \"ALLOW\" is not an action of seccomp; .*"));
  for (auto name : {""_kj, "."_kj, ".."_kj, "a/b"_kj, "a\n"_kj}) EXPECT_FALSE(isProfileName(name));
  EXPECT_TRUE(isProfileName("audit.json"));
}

struct Overrides {
  capnp::MallocMessageBuilder message;

  FreeFormValue read(std::initializer_list<std::pair<kj::StringPtr, kj::StringPtr>> pairs) {
    auto list = message.initRoot<Machine>().initBaseRuntimeSpecOverrides(pairs.size());
    unsigned i = 0;
    for (auto& [key, value] : pairs) {
      list[i].setKey(key);
      list[i++].setValue(value);
    }
    return readRuntimeSpecOverrides(list);
  }
};

// Catches: an override that replaces the part of containerd's specification around it, so that no
// container starts; a limit of the default that comes before that of the user.
TEST(FreeForm, OverridesAreMergedIntoContainerdsSpecification) {
  Overrides overrides;
  auto spec = shown(overrides.read({{"process",
                                     "rlimits: [{type: RLIMIT_NOFILE, hard: 4096, soft: 2048}]\n"
                                     "noNewPrivileges: false\n"},
                                    {"linux", "readonlyPaths: [/proc/more]\n"}}));
  EXPECT_THAT(spec, HasSubstr("\"rlimits\": [\n      {\n        \"type\": \"RLIMIT_NOFILE\",\n"
                              "        \"hard\": 4096,\n        \"soft\": 2048\n      }\n    ]"));
  EXPECT_THAT(spec, HasSubstr("\"noNewPrivileges\": false"));
  EXPECT_THAT(spec, HasSubstr("\"/proc/sysrq-trigger\",\n      \"/proc/more\"\n"));
  for (auto part : {"\"CAP_CHOWN\"", "\"path\": \"rootfs\"", "\"destination\": \"/dev/shm\"",
                    "\"type\": \"network\"", "\"allow\": false"}) {
    EXPECT_THAT(spec, HasSubstr(part));
  }
  EXPECT_THAT(spec, Not(HasSubstr("1024")));
}

// Catches: a value with which containerd does not serve Kubernetes, or runc starts no container.
TEST(FreeForm, WrongOverrides) {
  Overrides overrides;
  EXPECT_EQ("process.rlimits: must be a list",
            shown(overrides.read({{"process", "{rlimits: {type: RLIMIT_NOFILE}}"}})));
  EXPECT_EQ(
      "process.rlimits[0].hard: must be a whole number that is not negative\n"
      "process.rlimits[0].type: \"NOFILE\" is not a limit of resources; use one of RLIMIT_AS, "
      "RLIMIT_CORE, RLIMIT_CPU, RLIMIT_DATA, RLIMIT_FSIZE, RLIMIT_LOCKS, RLIMIT_MEMLOCK, "
      "RLIMIT_MSGQUEUE, RLIMIT_NICE, RLIMIT_NOFILE, RLIMIT_NPROC, RLIMIT_RSS, RLIMIT_RTPRIO, "
      "RLIMIT_RTTIME, RLIMIT_SIGPENDING, RLIMIT_STACK",
      shown(overrides.read({{"process", "{rlimits: [{type: NOFILE, hard: '1', soft: 1}]}"}})));
  EXPECT_EQ(
      "process.rlimits[0].soft: more than hard; use the value of hard or less",
      shown(overrides.read({{"process", "{rlimits: [{type: RLIMIT_CORE, hard: 1, soft: 2}]}"}})));
  EXPECT_EQ("process.oomScoreAdj: must be a whole number",
            shown(overrides.read({{"process", "{oomScoreAdj: low}"}})));
  EXPECT_EQ(
      "proces: not a key that can be overridden: the specification has no such key, or containerd "
      "sets it for each container; remove it",
      shown(overrides.read({{"proces", "{}"}})));
  EXPECT_THAT(shown(overrides.read({{"process", "{args: [sh]}"}})), HasSubstr("process.args: not"));
  EXPECT_EQ("annotations.a: must be a text", shown(overrides.read({{"annotations", "{a: 1}"}})));
  EXPECT_EQ("process: must be a mapping", shown(overrides.read({{"process", "5"}})));
}

}  // namespace
}  // namespace talos::config
