#include "talosctl/config/patch.h"

#include <gtest/gtest.h>

#include <string>

#include "talosctl/config/config-shape.h"

namespace talos {
namespace {

// Returns the result, or the problems after "!".
kj::String patched(kj::StringPtr document, kj::StringPtr patch,
                   Shape (*shapeOf)(kj::ArrayPtr<const kj::StringPtr>) = nullptr,
                   bool (*isKey)(kj::ArrayPtr<const kj::StringPtr>) = nullptr) {
  Problems problems;
  KJ_IF_MAYBE (text, applyPatch(document, patch, problems, {"doc", "patch", shapeOf, isKey})) {
    EXPECT_EQ(0u, problems.size()) << render(problems).cStr();
    return kj::mv(*text);
  }
  return kj::str("!", render(problems));
}

struct Row {
  const char* name;
  const char* document;
  const char* patch;
  const char* expected;
};

// Catches: an operation that differs from RFC 6902, appendix A. The documents are in block style,
// in which unchanged text stays.
TEST(Patch, DoesWhatTheStandardSays) {
  const Row rows[] = {
      {"A.1 add a member", "foo: bar\n", R"([{"op":"add","path":"/baz","value":"qux"}])",
       "foo: bar\nbaz: qux\n"},
      {"A.2 add an item", "foo:\n  - bar\n  - baz\n",
       R"([{"op":"add","path":"/foo/1","value":"qux"}])", "foo:\n  - bar\n  - qux\n  - baz\n"},
      {"A.3 remove a member", "baz: qux\nfoo: bar\n", R"([{"op":"remove","path":"/baz"}])",
       "foo: bar\n"},
      {"A.4 remove an item", "foo:\n- bar\n- qux\n- baz\n", R"([{"op":"remove","path":"/foo/1"}])",
       "foo:\n- bar\n- baz\n"},
      {"A.5 replace", "baz: qux # why\nfoo: bar\n",
       R"([{"op":"replace","path":"/baz","value":"boo"}])", "baz: boo # why\nfoo: bar\n"},
      {"A.6 move a member", "foo:\n  bar: baz\n  waldo: fred\nqux:\n  corge: grault\n",
       R"([{"op":"move","from":"/foo/waldo","path":"/qux/thud"}])",
       "foo:\n  bar: baz\nqux:\n  corge: grault\n  thud: fred\n"},
      {"A.7 move an item", "foo:\n- all\n- grass\n- cows\n- eat\n",
       R"([{"op":"move","from":"/foo/1","path":"/foo/3"}])",
       "foo:\n- all\n- cows\n- eat\n- grass\n"},
      {"A.8 test", "baz: qux\nfoo: [a, 2, c]\n",
       R"([{"op":"test","path":"/baz","value":"qux"},{"op":"test","path":"/foo/1","value":2}])",
       "baz: qux\nfoo: [a, 2, c]\n"},
      {"A.9 a test that fails", "baz: qux\n", R"([{"op":"test","path":"/baz","value":"bar"}])",
       "!patch:1:2: /baz: test failed: the value differs\n"},
      {"A.10 add a mapping", "foo: bar\n",
       R"([{"op":"add","path":"/child","value":{"grandchild":{}}}])",
       "foo: bar\nchild:\n    grandchild: {}\n"},
      {"A.11 other members are ignored", "foo: bar\n",
       R"([{"op":"add","path":"/baz","value":"qux","xyz":123}])", "foo: bar\nbaz: qux\n"},
      {"A.12 no parent", "foo: bar\n", R"([{"op":"add","path":"/baz/bat","value":"qux"}])",
       "!patch:1:2: /baz/bat: no such path; the document has \"foo\"\n"},
      {"A.14 escapes", "/: 9\n~1: 10\n",
       R"([{"op":"test","path":"/~01","value":10},{"op":"replace","path":"/~1","value":8}])",
       "/: 8\n~1: 10\n"},
      {"A.15 text is no number", "/: 9\n~1: 10\n", R"([{"op":"test","path":"/~01","value":"10"}])",
       "!patch:1:2: /~01: test failed: the value differs\n"},
      {"A.16 append", "foo: [bar]\n", R"([{"op":"add","path":"/foo/-","value":["abc","def"]}])",
       "foo: [bar, [abc, def]]\n"},
      {"copy", "a:\n  b: 1 # one\nc: 2\n", R"([{"op":"copy","from":"/a","path":"/c"}])",
       "a:\n  b: 1 # one\nc:\n  b: 1\n"},
      {"the whole document", "a: 1\n", R"([{"op":"replace","path":"","value":{"b":2}}])", "b: 2\n"},
      {"null is a value", "a: 1\n", R"([{"op":"replace","path":"/a","value":null}])", "a: null\n"},
      {"equal mappings in another order", "a: {x: 1, y: [true]}\n",
       R"([{"op":"test","path":"/a","value":{"y":[true],"x":1.0}}])", "a: {x: 1, y: [true]}\n"},
      {"an octal number is a number", "a: 0644\n", R"([{"op":"test","path":"/a","value":420}])",
       "a: 0644\n"},
      {"a patch in YAML", "a: 1\n", "- op: replace\n  path: /a\n  value: |\n    two\n    lines\n",
       "a: |\n    two\n    lines\n"},
      {"moved onto itself", "a: 1\n", R"([{"op":"move","from":"/a","path":"/a"}])", "a: 1\n"},
      {"nothing to do", "a:   1 # x\n\n", "[]", "a:   1 # x\n\n"},
      {"replaced by the same", "a:   'x'  # y\n", R"([{"op":"replace","path":"/a","value":"x"}])",
       "a:   'x'  # y\n"},
  };
  for (auto& row : rows) {
    EXPECT_EQ(std::string(row.expected), patched(row.document, row.patch).cStr()) << row.name;
  }
}

// Catches: a patch of the users' documents that is refused because the config lacks its parent; a
// parent whose shape is guessed.
TEST(Patch, AddMakesParentsThatTheConfigKnows) {
  const Row rows[] = {
      {"a mapping", "machine:\n  type: worker\n",
       R"([{"op":"add","path":"/machine/network/hostname","value":"a"}])",
       "machine:\n  type: worker\n  network:\n    hostname: a\n"},
      {"two mappings", "machine: {}\n",
       R"([{"op":"add","path":"/machine/kubelet/nodeIP/validSubnets","value":["10.0.0.0/8"]}])",
       "machine:\n    kubelet:\n        nodeIP:\n            validSubnets:\n                - "
       "10.0.0.0/8\n"},
      {"a key without a value", "machine:\n  network:\n",
       R"([{"op":"add","path":"/machine/network/hostname","value":"a"}])",
       "machine:\n  network:\n    hostname: a\n"},
      {"the first item of a list", "machine: {}\n",
       R"([{"op":"add","path":"/machine/certSANs/-","value":"a"}])",
       "machine:\n    certSANs:\n        - a\n"},
      {"a map with any keys", "machine: {}\n",
       R"([{"op":"add","path":"/machine/sysctls/net.ipv4.ip_forward","value":"1"}])",
       "machine:\n    sysctls:\n        net.ipv4.ip_forward: \"1\"\n"},
      {"a key of a map", "machine: {}\n",
       R"([{"op":"add","path":"/machine/registries/mirrors/docker.io/endpoints/0","value":"http://m"}])",
       "machine:\n    registries:\n        mirrors:\n            docker.io:\n                "
       "endpoints:\n"
       "                    - http://m\n"},
      {"an item that is there", "machine: {network: {interfaces: [{interface: a}]}}\n",
       R"([{"op":"add","path":"/machine/network/interfaces/0/vip/ip","value":"10.0.0.9"}])",
       "machine: {network: {interfaces: [{interface: a, vip: {ip: 10.0.0.9}}]}}\n"},
      {"a key of a later version", "machine: {}\n",
       R"([{"op":"add","path":"/machine/features/diskQuotaSupport","value":true}])",
       "machine:\n    features:\n        diskQuotaSupport: true\n"},
      {"an item that is not there", "machine: {}\n",
       R"([{"op":"add","path":"/machine/network/interfaces/0/vip/ip","value":"10.0.0.9"}])",
       "!patch:1:2: /machine/network/interfaces/0/vip/ip: no such path; "
       "/machine/network/interfaces "
       "has 0 items, counted from 0\n"},
      {"a slip", "machine:\n  type: worker\n",
       R"([{"op":"add","path":"/machine/netwrok/hostname","value":"a"}])",
       "!patch:1:2: /machine/netwrok/hostname: no such path; /machine has \"type\"\n"},
      {"only add", "machine:\n  type: worker\n",
       R"([{"op":"replace","path":"/machine/network/hostname","value":"a"}])",
       "!patch:1:2: /machine/network/hostname: no such path; /machine has \"type\"\n"},
      {"below a single value", "machine: {type: worker}\n",
       R"([{"op":"add","path":"/machine/type/x","value":"a"}])",
       "!patch:1:2: /machine/type/x: cannot add a value here; /machine/type is a single value; add "
       "a "
       "whole mapping or list there\n"},
  };
  for (auto& row : rows) {
    EXPECT_EQ(std::string(row.expected),
              patched(row.document, row.patch, &talosctl::shapeOfConfig).cStr())
        << row.name;
  }
}

// Catches: a key of the format that cannot be replaced because a generated config leaves it out; a
// mistyped key, or an item of a list, that is created instead of refused.
TEST(Patch, AGeneratedConfigLeavesOutDefaults) {
  auto generated = [](kj::StringPtr path) {
    auto patch = kj::str(R"([{"op":"replace","path":")", path, R"(","value":"a"}])");
    return std::string(patched("machine:\n  type: worker\n", patch, &talosctl::shapeOfConfig,
                               &talosctl::isConfigKey)
                           .cStr());
  };
  EXPECT_EQ(generated("/cluster/clusterName"),
            "machine:\n  type: worker\ncluster:\n  clusterName: a\n");
  EXPECT_EQ(generated("/machine/type"), "machine:\n  type: a\n");
  EXPECT_EQ(generated("/machine/sysctls/vm.swappiness"),
            "machine:\n  type: worker\n  sysctls:\n    vm.swappiness: a\n");
  EXPECT_EQ(generated("/machine/features/kubePrism/enabled"),
            "machine:\n  type: worker\n  features:\n    kubePrism:\n      enabled: a\n");
  EXPECT_EQ(generated("/machine/kubelet/extraConfig/maxPods"),
            "machine:\n  type: worker\n  kubelet:\n    extraConfig:\n      maxPods: a\n");
  EXPECT_EQ(generated("/cluster/clusterNmae").substr(0, 40),
            "!patch:1:2: /cluster/clusterNmae: no suc");
  EXPECT_EQ(generated("/machine/certSANs/0").substr(0, 47),
            "!patch:1:2: /machine/certSANs/0: no such path; ");
}

// Catches: a published patch that removes a default of Talos and fails, because our generated
// configs do not have it; a mistyped key, or an item of an existing list, that is skipped.
TEST(Patch, RemovingWhatAGeneratedConfigLeavesOutIsAWarning) {
  kj::StringPtr document = "machine:\n  certSANs: [a]\ncluster:\n  apiServer: {certSANs: [b]}\n";
  const struct {
    const char* patch;
    const char* problem;
    bool accepted;
  } rows[] = {
      {R"([{"op":"remove","path":"/cluster/apiServer/admissionControl"}])",
       "patch:1:2: warning: /cluster/apiServer/admissionControl: nothing to delete: the generated "
       "config does not have it\n",
       true},
      {"machine:\n  nodeLabels:\n    node.kubernetes.io/exclude-from-external-load-balancers:\n"
       "      $patch: delete\n",
       "patch:2:3: warning: machine.nodeLabels: nothing to delete: the generated config does not "
       "have it\n",
       true},
      {"cluster:\n  apiServer:\n    admissionControl: {$patch: delete}\n",
       "patch:3:5: warning: cluster.apiServer.admissionControl: nothing to delete: the generated "
       "config does not have it\n",
       true},
      {"cluster:\n  apiServer:\n    admissionControl: [{name: PodSecurity, $patch: delete}]\n",
       "patch:3:5: warning: cluster.apiServer.admissionControl: nothing to delete: the generated "
       "config does not have it\n",
       true},
      {R"([{"op":"remove","path":"/cluster/apiServer/admisionControl"}])",
       "patch:1:2: /cluster/apiServer/admisionControl: no such path; /cluster/apiServer has "
       "\"certSANs\"\n",
       false},
      {R"([{"op":"move","from":"/cluster/apiServer/image","path":"/cluster/id"}])",
       "patch:1:2: /cluster/apiServer/image: no such path; /cluster/apiServer has \"certSANs\"\n",
       false},
      {R"([{"op":"remove","path":"/machine/certSANs/1"}])",
       "patch:1:2: /machine/certSANs/1: no such path; /machine/certSANs has 1 item, counted from "
       "0\n",
       false},
      {"machine:\n  network:\n    hostnmae: {$patch: delete}\n",
       "patch:3:16: machine.network: nothing to delete: there is no such key; correct it, or "
       "remove it from the patch\n",
       false},
  };
  for (auto& row : rows) {
    Problems problems;
    auto result = applyPatch(document, row.patch, problems,
                             {"doc", "patch", &talosctl::shapeOfConfig, &talosctl::isConfigKey});
    EXPECT_EQ(result != nullptr, row.accepted) << row.patch;
    KJ_IF_MAYBE (text, result) {
      EXPECT_STREQ(text->cStr(), document.cStr()) << row.patch;
    }
    EXPECT_STREQ(render(problems).cStr(), row.problem) << row.patch;
    // In another config, it is an error.
    Problems errors;
    EXPECT_TRUE(applyPatch(document, row.patch, errors, {"doc", "patch"}) == nullptr) << row.patch;
  }
}

// Catches: text that is lost or moved by a change elsewhere.
TEST(Patch, KeepsTheTextOfWhatItDoesNotChange) {
  const Row rows[] = {
      {"comments around the change",
       "# file\n\n# about a\na: 1 # one\n# about b\nb:\n    # inner\n    c: 'x' # two\n\n# end\n",
       R"([{"op":"replace","path":"/b/c","value":"yy"}])",
       "# file\n\n# about a\na: 1 # one\n# about b\nb:\n    # inner\n    c: yy # two\n\n# end\n"},
      {"a comment goes with its key",
       "# file\n\n# about a\na: 1\n# about b\nb: 2 # b\n# about c\nc: 3\n",
       R"([{"op":"remove","path":"/b"}])", "# file\n\n# about a\na: 1\n# about c\nc: 3\n"},
      {"the file's first comment stays", "# file\na: 1\nb: 2\n", R"([{"op":"remove","path":"/a"}])",
       "# file\nb: 2\n"},
      {"the last key", "a: 1\nb: 2\n# end\n", R"([{"op":"remove","path":"/b"}])", "a: 1\n# end\n"},
      {"no newline at the end", "a: 1", R"([{"op":"add","path":"/b","value":2}])", "a: 1\nb: 2"},
      {"CRLF", "a: 1\r\nb:\r\n  c: 2\r\n", R"([{"op":"add","path":"/b/d","value":[1,2]}])",
       "a: 1\r\nb:\r\n  c: 2\r\n  d:\r\n    - 1\r\n    - 2\r\n"},
      {"an empty mapping gets its first key", "a: {} # none\nb: 1\n",
       R"([{"op":"add","path":"/a/k","value":"v"}])", "a: # none\n    k: v\nb: 1\n"},
      {"a mapping loses its last key", "a: # some\n    # k\n    k: v\nb: 1\n",
       R"([{"op":"remove","path":"/a/k"}])", "a: {} # some\nb: 1\n"},
      {"a text of several lines", "a: |\n  # x\n  y\n\n# about b\nb: 1\n",
       R"([{"op":"replace","path":"/a","value":"z"}])", "a: z\n\n# about b\nb: 1\n"},
      {"an item of mappings", "a:\n  # first\n  - k: 1\n    l: 2\n  # second\n  - k: 3\n",
       R"([{"op":"replace","path":"/a/0/k","value":5},{"op":"add","path":"/a/1/m","value":6}])",
       "a:\n  # first\n  - k: 5\n    l: 2\n  # second\n  - k: 3\n    m: 6\n"},
      {"the first key of an item", "a:\n  - k: 1\n    l: 2 # two\n",
       R"([{"op":"remove","path":"/a/0/k"}])", "a:\n  - l: 2 # two\n"},
      {"an item before the first", "a:\n  # first\n  - 1\n",
       R"([{"op":"add","path":"/a/0","value":{"k":1,"l":2}}])",
       "a:\n  - k: 1\n    l: 2\n  # first\n  - 1\n"},
      {"all items", "a:\n  - 1\n  - 2\nb: 1\n",
       R"([{"op":"remove","path":"/a/0"},{"op":"remove","path":"/a/0"}])", "a: []\nb: 1\n"},
      {"a list written anew", "a:\n  - 1 # one\n  - 2 # two\n",
       R"([{"op":"replace","path":"/a","value":[1,3,2]}])",
       "a:\n  - 1 # one\n  - 3\n  - 2 # two\n"},
      {"what moves keeps its text", "a:\n  # inner\n  k: 1   # one\nb:\n  c: 1\n",
       R"([{"op":"move","from":"/a","path":"/b/a"}])",
       "b:\n  c: 1\n  a:\n    # inner\n    k: 1   # one\n"},
      {"other documents", "a: 1\n---\nmachine: {type: init}\n---\nb:  2\n",
       R"([{"op":"replace","path":"/machine/type","value":"worker"}])",
       "a: 1\n---\nmachine: {type: worker}\n---\nb:  2\n"},
      {"JSON", "{\n  \"a\": 1,\n  \"b\": [\"x, y\"]\n}\n",
       R"([{"op":"replace","path":"/b/0","value":"z"}])", "{\n  \"a\": 1,\n  \"b\": [\"z\"]\n}\n"},
      {"a byte order mark",
       "\xef\xbb\xbf"
       "a: 1\n",
       R"([{"op":"replace","path":"/a","value":2}])",
       "\xef\xbb\xbf"
       "a: 2\n"},
      {"a key without a value", "a: # none\nb: 1\n",
       R"([{"op":"replace","path":"/a","value":"x"}])", "a: x # none\nb: 1\n"},
      {"text that looks like something else", "a: x\n",
       R"([{"op":"replace","path":"/a","value":"true"}])", "a: \"true\"\n"},
  };
  for (auto& row : rows)
    EXPECT_EQ(std::string(row.expected), patched(row.document, row.patch).cStr()) << row.name;
}

// Catches: a change that also affects another user of the same anchor.
TEST(Patch, ChangesOneUserOfAnAnchor) {
  const Row rows[] = {
      {"below the anchor", "# keep\na: &x\n  k: 1\nb: *x\n",
       R"([{"op":"replace","path":"/a/k","value":2}])", "# keep\na:\n  k: 2\nb:\n  k: 1\n"},
      {"below an alias", "a: &x\n  k: 1\nb: *x # same\nc: *x\n",
       R"([{"op":"replace","path":"/b/k","value":2}])",
       "a: &x\n  k: 1\nb: # same\n  k: 2\nc: *x\n"},
      {"an alias", "a: &x [1]\nb: *x\n", R"([{"op":"replace","path":"/b","value":3}])",
       "a: &x [1]\nb: 3\n"},
      {"a merged mapping", "a: &x\n  k: 1\nb:\n  <<: *x\n  l: 2\n",
       R"([{"op":"replace","path":"/b/k","value":3}])", "a: &x\n  k: 1\nb:\n  l: 2\n  k: 3\n"},
      {"an alias in a list", "a: &x 1\nb:\n  - *x # same\n  - 2\n",
       R"([{"op":"replace","path":"/b/0","value":3}])", "a: &x 1\nb:\n  - 3 # same\n  - 2\n"},
  };
  for (auto& row : rows)
    EXPECT_EQ(std::string(row.expected), patched(row.document, row.patch).cStr()) << row.name;
}

// Catches: a wrong patch that is applied in part or without an error, and messages without the
// place.
TEST(Patch, RefusesWhatCannotBeDone) {
  const char* document = "machine:\n  type: init\n  list: [1, 2]\n  empty:\n";
  const Row rows[] = {
      {"", document, "text",
       "!patch:1:1: not a valid patch; use a list of operations (JSON Patch) or a mapping to "
       "merge\n"},
      {"", document, "[1]",
       "!patch:1:2: not a valid JSON Patch operation; use for example {\"op\": \"replace\", "
       "\"path\": "
       "\"/machine/type\", \"value\": \"init\"}\n"},
      {"", document, "- op: replcae\n  path: /machine/type\n  value: x\n",
       "!patch:1:7: \"replcae\" is not a valid JSON Patch operation; did you mean \"replace\"?\n"},
      {"", document, R"([{"path":"/a"},{"op":"remove"},{"op":"add","path":"a","value":1}])",
       "!patch:1:2: the operation has no \"op\"; use add, remove, replace, move, copy or test\n"
       "patch:1:16: the operation has no \"path\"; use for example /machine/network/hostname\n"
       "patch:1:51: \"a\" is not a valid JSON pointer; it must start with \"/\", such as "
       "/machine/network/hostname\n"},
      {"", document, R"([{"op":"add","path":"/~2","value":1}])",
       "!patch:1:21: \"/~2\" is not a valid JSON pointer; write ~ as ~0, and / in a key as ~1\n"},
      {"", document, R"([{"op":"add","path":"/~","value":1}])",
       "!patch:1:21: \"/~\" is not a valid JSON pointer; write ~ as ~0, and / in a key as ~1\n"},
      {"", document, R"([{"op":"add","path":"/a"}])",
       "!patch:1:2: the operation has no \"value\"\n"},
      {"", document, R"([{"op":"move","path":"/a"}])",
       "!patch:1:2: the operation has no \"from\"; use for example /machine/network/hostname\n"},
      {"", document, R"([{"op":"remove","path":{}}])",
       "!patch:1:24: \"path\" must be a string; use for example /machine/network/hostname\n"},
      {"", document, R"([{"op":"replace","path":"/machine/typ","value":1}])",
       "!patch:1:2: /machine/typ: no such path; /machine has \"type\"; did you mean that?\n"},
      {"", document, R"([{"op":"replace","path":"/machine/kubelet/image","value":1}])",
       "!patch:1:2: /machine/kubelet/image: no such path; /machine has \"type\", "
       "\"list\", \"empty\"\n"},
      {"", document, R"([{"op":"remove","path":"/machine/type/x"}])",
       "!patch:1:2: /machine/type/x: no such path; /machine/type is a single "
       "value\n"},
      {"", document, R"([{"op":"remove","path":""}])",
       "!patch:1:2: \"\": cannot remove the whole document\n"},
      {"", document, R"([{"op":"remove","path":"/machine/list/2"}])",
       "!patch:1:2: /machine/list/2: no such path; /machine/list has 2 items, "
       "counted "
       "from 0\n"},
      {"", document, R"([{"op":"remove","path":"/machine/list/-"}])",
       "!patch:1:2: /machine/list/-: no such path; /machine/list has 2 items, "
       "counted "
       "from 0\n"},
      {"", document, R"([{"op":"add","path":"/machine/list/3","value":1}])",
       "!patch:1:2: /machine/list/3: list index out of range; /machine/list has 2 items, counted "
       "from "
       "0; use - to append\n"},
      {"", document, R"([{"op":"add","path":"/machine/list/01","value":1}])",
       "!patch:1:2: /machine/list/01: \"01\" is not a valid list index; /machine/list is a list; "
       "use 0, 1, …, or - to append\n"},
      {"", document, R"([{"op":"add","path":"/machine/list/x","value":1}])",
       "!patch:1:2: /machine/list/x: \"x\" is not a valid list index; /machine/list is a list; use "
       "0, 1, …, or - to append\n"},
      {"", document, R"([{"op":"add","path":"/machine/type/x","value":1}])",
       "!patch:1:2: /machine/type/x: cannot add a value here; /machine/type is a single value; "
       "add a "
       "whole mapping or list there\n"},
      {"", document, R"([{"op":"add","path":"/machine/empty/x","value":1}])",
       "!patch:1:2: /machine/empty/x: cannot add a value here; /machine/empty is empty; add a "
       "whole "
       "mapping or list there\n"},
      {"", document, R"([{"op":"move","from":"/machine","path":"/machine/x"}])",
       "!patch:1:2: /machine/x: cannot move a value into itself\n"},
      {"", document, R"([{"op":"move","from":"","path":"/x"}])",
       "!patch:1:2: /x: cannot move a value into itself\n"},
      {"", document, R"([{"op":"copy","from":"/x","path":"/y"}])",
       "!patch:1:2: /x: no such path; the document has \"machine\"\n"},
      {"the second of two", document,
       "- op: replace\n  path: /machine/type\n  value: worker\n- op: test\n  path: /machine/type\n"
       "  value: init\n",
       "!patch:4:3: /machine/type: test failed: the value differs\n"},
      {"", document, "- op: test\n path: /a\n",
       "!patch:2:2: this line is not part of the list above it; indent all items of a list alike "
       "and "
       "begin each with \"- \"\n"},
      {"", "a: [\n", "[]", "!doc:2:1: \"]\" or \",\" is missing before this\n"},
      {"", "", "[]", "!doc: the document is empty\n"},
      {"", "- 1\n", "a: 1\n", "!patch:1:1: cannot merge into the document: it is not a mapping\n"},
      {"", document, "$patch: delete\n", "!patch:1:1: cannot remove the whole document\n"},
      {"", document, "machine: {$patch: merge}\n",
       "!patch:1:11: machine: not a valid $patch; use \"delete\", or leave it out to merge the "
       "mapping\n"},
  };
  for (auto& row : rows)
    EXPECT_EQ(std::string(row.expected), patched(row.document, row.patch).cStr()) << row.patch;
}

// Catches: lists that are appended to instead of merged, and the reverse.
TEST(Patch, MergesByTheRulesOfEachList) {
  const Row rows[] = {
      {"mappings", "machine:\n  a: 1 # one\n  b: {c: 2}\n", "machine:\n  b:\n    d: 3\n  e: 4\n",
       "machine:\n  a: 1 # one\n  b: {c: 2, d: 3}\n  e: 4\n"},
      {"a mapping is removed", "a:\n  b: 1\nc: 2\n", "a: {$patch: delete}\n", "c: 2\n"},
      {"a list is appended to", "machine:\n  certSANs:\n    - a # A\n",
       "machine:\n  certSANs: [b]\n", "machine:\n  certSANs:\n    - a # A\n    - b\n"},
      {"interfaces merge by name",
       "machine:\n  network:\n    interfaces:\n      - interface: eth0 # up\n        dhcp: true\n"
       "        vlans:\n          - vlanId: 7\n            dhcp: true\n",
       "machine:\n  network:\n    interfaces:\n      - interface: eth0\n        mtu: 9000\n"
       "        vlans:\n          - {vlanId: 0x7, dhcp: false}\n          - {vlanId: 8}\n"
       "      - interface: eth1\n",
       "machine:\n  network:\n    interfaces:\n      - interface: eth0 # up\n        dhcp: true\n"
       "        vlans:\n          - vlanId: 0x7\n            dhcp: false\n          - vlanId: 8\n"
       "        mtu: 9000\n      - interface: eth1\n"},
      {"an interface is removed",
       "machine:\n  network:\n    interfaces:\n      - interface: eth0\n      - interface: eth1\n",
       "machine:\n  network:\n    interfaces:\n      - {interface: eth0, $patch: delete}\n",
       "machine:\n  network:\n    interfaces:\n      - interface: eth1\n"},
      {"subnets are replaced", "cluster:\n  network:\n    podSubnets:\n      - 10.0.0.0/8\n",
       "cluster:\n  network:\n    podSubnets: [10.1.0.0/16]\n",
       "cluster:\n  network:\n    podSubnets:\n      - 10.1.0.0/16\n"},
      {"the same", "a: {b: [1]} # x\n", "a: {}\n", "a: {b: [1]} # x\n"},
  };
  for (auto& row : rows)
    EXPECT_EQ(std::string(row.expected), patched(row.document, row.patch).cStr()) << row.name;
}

// Catches: patches that grow without a limit: each copy doubles the document, or makes it deeper.
TEST(Patch, EndsOnPatchesThatGrow) {
  std::string copies = "[", deeper = "[", pointer;
  for (int i = 0; i < 60; ++i) {
    copies += std::string(i > 0 ? "," : "") + R"({"op":"copy","from":"","path":"/k)" +
              std::to_string(i) + R"("})";
    deeper += std::string(i > 0 ? "," : "") + R"({"op":"add","path":")" + pointer +
              R"(/a","value":{"a":{}}})";
    pointer += "/a/a";
  }
  EXPECT_TRUE(patched("a: 1\n", (copies + "]").c_str()).startsWith("!patch"));
  EXPECT_TRUE(patched("a: 1\n", (deeper + "]").c_str()).endsWith("nested deeper than 64 levels\n"));
  std::string big = "a: " + std::string(2u << 20, 'x') + "\n", repeats = "[";
  for (int i = 0; i < 4'000; ++i)
    repeats += std::string(i > 0 ? "," : "") + R"({"op":"copy","from":"/a","path":"/k)" +
               std::to_string(i) + R"("})";
  EXPECT_TRUE(
      patched(big.c_str(), (repeats + "]").c_str()).startsWith("!patch: the patched document"));
  std::string list = "a: [0", adds = "[";
  for (int i = 0; i < 90'000; ++i) list += ",0";
  for (int i = 0; i < 20'000; ++i)
    adds += std::string(i > 0 ? "," : "") + R"({"op":"add","path":"/a/0","value":1})";
  EXPECT_EQ(std::string("!patch: applying the patch takes too much work; use a smaller patch\n"),
            patched((list + "]\n").c_str(), (adds + "]").c_str()).cStr());
}

// Catches: work that doubles with each level (the test would not end), or that grows with the
// square of the number of keys.
TEST(Patch, EndsOnDeepAndOnLongDocuments) {
  std::string deep = "a:\n  ", pointer = "/a";
  for (int i = 0; i < 60; ++i) deep += "- ", pointer += "/0";
  auto patch = R"([{"op":"replace","path":")" + pointer + R"(","value":"y"}])";
  EXPECT_EQ(deep + "\"y\"\nb: 1\n", patched((deep + "x\nb: 1\n").c_str(), patch.c_str()).cStr());

  std::string keys, items = "a:\n", removed = "a: 1\n", moves = "[";
  for (int i = 0; i < 20'000; ++i) keys += "k" + std::to_string(i) + ": 1\n";
  for (int i = 0; i < 20'000; ++i) items += "- i" + std::to_string(i) + "\n";
  EXPECT_EQ(keys.substr(6), patched(keys.c_str(), R"([{"op":"remove","path":"/k0"}])").cStr());
  EXPECT_EQ(
      "a: 1\n",
      std::string(patched(keys.c_str(), R"([{"op":"replace","path":"","value":{"a":1}}])").cStr()));
  for (int i = 0; i < 300; ++i)
    moves += std::string(i > 0 ? "," : "") + R"({"op":"move","from":"/a/19999","path":"/a/0"})";
  EXPECT_TRUE(patched(items.c_str(), (moves + "]").c_str()).startsWith("a:\n- i19700\n"));
}

}  // namespace
}  // namespace talos
