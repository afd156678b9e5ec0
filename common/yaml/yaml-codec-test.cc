#include "common/yaml/yaml-codec.h"

#include <capnp/schema.capnp.h>
#include <gtest/gtest.h>

#include "common/testing/printing.h"
#include "common/yaml/test-read.h"
#include "common/yaml/yaml.h"

#include <random>

#include "rpc/config.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/machine.capnp.h"
#include "rpc/meta-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::codec {
namespace {

// Catches: any deviation from the text that the user's documents print for this resource.
TEST(WriteYaml, PrintsTheControlPlaneConfigOfTheDocuments) {
  capnp::MallocMessageBuilder message;
  auto api = message.initRoot<rpc::ControlPlaneConfigSpec>().initApiServer();
  api.setImage("k8s.gcr.io/kube-apiserver:v1.20.4");
  api.setControlPlaneEndpoint("https://172.20.0.1:6443");
  api.initEtcdServers(1).set(0, "https://127.0.0.1:2379");
  api.setLocalPort(6443);
  api.setServiceCIDR("10.96.0.0/12");
  kj::StringPtr expected =
      "spec:\n"
      "    image: k8s.gcr.io/kube-apiserver:v1.20.4\n"
      "    cloudProvider: \"\"\n"
      "    controlPlaneEndpoint: https://172.20.0.1:6443\n"
      "    etcdServers:\n"
      "        - https://127.0.0.1:2379\n"
      "    localPort: 6443\n"
      "    serviceCIDR: 10.96.0.0/12\n"
      "    extraArgs: {}\n"
      "    extraVolumes: []\n"_kj;
  auto root = message.getRoot<rpc::ControlPlaneConfigSpec>();
  EXPECT_EQ(expected, writeYamlEntry("spec", root.asReader()));
  EXPECT_EQ(expected, kj::str("spec:\n", writeYaml(root.asReader(), {.startColumn = 4})));
}

// Catches: lost comments, wrong indentation of a text that holds a whole document, and the
// indentation of lists inside of list items ("- command:" in column 12 has its items in column 16).
TEST(WriteYaml, KeepsRawTextAndIndentsIt) {
  capnp::MallocMessageBuilder message;
  auto pod = message.initRoot<rpc::StaticPodSpec>();
  pod.setPod(
      "apiVersion: v1\nkind: Pod # a comment\nmetadata:\n    creationTimestamp: null\n\nspec: "
      "{}\n");
  EXPECT_EQ(kj::str("spec:\n    apiVersion: v1\n    kind: Pod # a comment\n    metadata:\n        "
                    "creationTimestamp: null\n\n    spec: {}\n"),
            writeYamlEntry("spec", pod.asReader()));
  EXPECT_EQ(
      kj::str(
          R"({"apiVersion":"v1","kind":"Pod","metadata":{"creationTimestamp":null},"spec":{}})"),
      writeJson(pod.asReader(), {.indent = 0}));
}

// Catches: document markers within a value, where they are not YAML; a document that is lost
// because a comment stands before its marker.
TEST(WriteYaml, WritesADocumentWithoutItsMarkers) {
  for (auto text : {"---\na: 1\n", "a: 1\n...\n", "a: 1\n---\n# nothing\n", "# b\n---\na: 1\n",
                    "%YAML 1.2\n---\na: 1\n", "\n--- # b\na: 1\n---\n"}) {
    capnp::MallocMessageBuilder message;
    auto pod = message.initRoot<rpc::StaticPodSpec>();
    pod.setPod(text);
    EXPECT_EQ(kj::str("spec:\n    a: 1\n"), writeYamlEntry("spec", pod.asReader())) << text;
    EXPECT_EQ(kj::str("{\"a\":1}"), writeJson(pod.asReader(), {.indent = 0})) << text;
  }
}

// Catches: the documents after the first one, lost without a word.
TEST(WriteYaml, WritesSeveralDocumentsAsAText) {
  for (auto text : {"---\na: 1\n---\nb: 2\n", "a: 1\n--- {b: 2}\n", "--- 1\n--- 2\n"}) {
    capnp::MallocMessageBuilder message;
    auto pod = message.initRoot<rpc::StaticPodSpec>();
    pod.setPod(text);
    for (auto& written : {writeYaml(pod.asReader()), writeJson(pod.asReader())}) {
      Problems problems;
      YamlStream stream(written, "", problems);
      ASSERT_EQ(1u, stream.documents().size()) << written.cStr();
      EXPECT_EQ(kj::str(text), stream.documents()[0]->text) << written.cStr();
    }
  }
}

// Catches: a document of mistakes that makes the reader grow without limit; an error that is lost
// among warnings.
TEST(ReadYaml, BoundsItsReports) {
  kj::Vector<kj::String> lines;
  for (unsigned i = 0; i < 5000; ++i) lines.add(kj::str("unknown", i, ": 1\n"));
  lines.add(kj::str("running: maybe\n"));
  Read<rpc::ServiceSpec> read(kj::strArray(lines, ""), {.unknownKeysAreWarnings = true});
  EXPECT_FALSE(read.good);
  EXPECT_EQ(kMaxProblems + 1, read.problems.size());
}

// Catches: items of a list that are not indented by the unit, keys of an item that do not align.
TEST(WriteYaml, IndentsListsInsideOfLists) {
  capnp::MallocMessageBuilder message;
  auto service = message.initRoot<rpc::ResourceDefinitionSpec>();
  auto columns = service.initPrintColumns(2);
  columns[0].setName("Ready");
  columns[0].setJsonPath("{.ready}");
  columns[1].setName("Secrets Version");
  auto text = yaml(service.asReader());
  EXPECT_EQ(kj::str("type: \"\"\n"
                    "displayType: \"\"\n"
                    "aliases: []\n"
                    "printColumns:\n"
                    "    - name: Ready\n"
                    "      jsonPath: \"{.ready}\"\n"
                    "    - name: Secrets Version\n"
                    "      jsonPath: \"\"\n"
                    "defaultNamespace: \"\"\n"
                    "sensitive: false\n"),
            text);
  EXPECT_EQ(kj::str("spec:\n    containers:\n        - command:\n            - /go-runner\n        "
                    "  image: x\n"),
            [] {
              Problems problems;
              capnp::MallocMessageBuilder m;
              auto manifest = m.initRoot<rpc::StaticPodSpec>();
              readYaml("{containers: [{command: [/go-runner], image: x}]}"_kj, manifest, problems);
              // Flow style is not valid in a block: it is rewritten, with the indentation of raw
              // text.
              EXPECT_EQ(kj::str("containers:\n  - command:\n      - /go-runner\n    image: x\n"),
                        manifest.getPod());
              return kj::str(
                  "spec:\n    containers:\n        - command:\n            - /go-runner\n          "
                  "image: x\n");
            }());
}

// Catches: a scalar resource that is printed as a mapping, with its key on a separate line.
TEST(WriteYaml, WritesAnInlineScalarBehindItsKey) {
  capnp::MallocMessageBuilder message;
  auto type = message.initRoot<rpc::MachineTypeSpec>();
  type.setType(rpc::MachineType::CONTROLPLANE);
  EXPECT_EQ(kj::str("spec: controlplane\n"), writeYamlEntry("spec", type.asReader()));
  EXPECT_EQ(kj::str("controlplane\n"), yaml(type.asReader()));
  EXPECT_EQ(kj::str("\"controlplane\""), writeJson(type.asReader()));
}

// Catches: a secret mapping that is shown as one text, so that its keys are not seen, or its values
// are.
TEST(WriteYaml, HidesTheValuesOfASecretMapping) {
  capnp::MallocMessageBuilder message;
  auto machine = message.initRoot<config::Machine>();
  auto variable = machine.initEnv(1)[0];
  variable.setKey("https_proxy");
  variable.setValue("http://u:p@h");
  auto env = machine.asReader();
  auto shown = yaml(env, {.empties = Empties::kOmit, .secrets = Secrets::kHide});
  EXPECT_NE(nullptr, strstr(shown.cStr(), "env:\n    https_proxy: \"***\"\n")) << shown.cStr();
}

// Catches: secrets in output that should hide them; invalid base64.
TEST(WriteYaml, HidesSecretsOnRequest) {
  capnp::MallocMessageBuilder message;
  auto pair = message.initRoot<rpc::KeyPair>();
  pair.setCrt(kj::StringPtr("cert").asBytes());
  pair.setKey(kj::StringPtr("key!").asBytes());
  EXPECT_EQ(kj::str("crt: Y2VydA==\nkey: a2V5IQ==\n"), yaml(pair.asReader()));
  EXPECT_EQ(kj::str("crt: Y2VydA==\nkey: \"***\"\n"),
            yaml(pair.asReader(), {.secrets = Secrets::kHide}));
  EXPECT_EQ(kj::str("***"),
            cell(pair.asReader(), capnp::Schema::from<rpc::KeyPair>().getFieldByName("key")));
}

// Catches: defaults in a config that omits them, an empty mapping that vanishes although it was
// set.
TEST(WriteYaml, OmitsDefaultsOnRequest) {
  capnp::MallocMessageBuilder message;
  auto service = message.initRoot<rpc::ServiceSpec>();
  service.setHealthy(true);
  EXPECT_EQ(kj::str("healthy: true\n"), yaml(service.asReader(), {.empties = Empties::kOmit}));
  EXPECT_EQ(kj::str("{\n    \"running\": false,\n    \"healthy\": true\n}"),
            writeJson(service.asReader()));
  auto certificates = message.initRoot<rpc::ApiCertificateSpec>();
  certificates.initServer();
  EXPECT_EQ(kj::str("server: {}\n"), yaml(certificates.asReader(), {.empties = Empties::kOmit}));
  capnp::MallocMessageBuilder other;
  auto ns = other.initRoot<rpc::NamespaceSpec>();
  EXPECT_EQ(kj::str("description: \"\"\n"), yaml(ns.asReader(), {.empties = Empties::kOmit}));
}

// Catches: a link that is shown with the options of a bond that it is not.
TEST(WriteYaml, WhatOtherKindsHaveIsWrittenOnlyIfGiven) {
  capnp::MallocMessageBuilder message;
  auto link = message.initRoot<rpc::LinkStatusSpec>();
  link.initVlan();
  auto text = yaml(link.asReader());
  EXPECT_TRUE(strstr(text.cStr(), "bondMaster") == nullptr) << text.cStr();
  EXPECT_TRUE(strstr(text.cStr(), "vlanID: 0") != nullptr) << text.cStr();
}

// Catches: cells that differ from the tables of the documents.
TEST(Cell, ShowsOneValue) {
  capnp::MallocMessageBuilder message;
  auto addresses = message.initRoot<rpc::NodeAddressSpec>();
  auto list = addresses.initAddresses(2);
  list.set(0, "10.5.0.2");
  list.set(1, "fd00::2");
  auto field = capnp::Schema::from<rpc::NodeAddressSpec>().getFieldByName("addresses");
  EXPECT_EQ(kj::str(R"(["10.5.0.2","fd00::2"])"), cell(addresses.asReader(), field));
  auto status = message.initRoot<rpc::StaticPodStatusSpec>();
  auto statusField = capnp::Schema::from<rpc::StaticPodStatusSpec>().getFieldByName("status");
  status.setStatus(
      "conditions:\n- type: Initialized\n  status: \"False\"\n- type: Ready\n  status: \"True\"\n");
  EXPECT_EQ(kj::str("True"), cell(status.asReader(), statusField));
  status.setStatus("phase: Pending\n");
  EXPECT_EQ(kj::str(""), cell(status.asReader(), statusField));
  auto mac = message.initRoot<rpc::LinkStatusSpec>();
  mac.setHardwareAddress("52:54:00:12:34:56");
  EXPECT_EQ(kj::str("52:54:00:12:34:56"),
            cell(mac.asReader(),
                 capnp::Schema::from<rpc::LinkStatusSpec>().getFieldByName("hardwareAddress")));
}

// Catches: booleans of YAML 1.1 that are refused, quotes that are ignored.
TEST(ReadYaml, TakesTheBooleansOfYaml11) {
  for (auto text : {"true", "y", "Y", "yes", "on", "ON"}) {
    Read<rpc::ServiceSpec> read(kj::str("running: ", text));
    EXPECT_TRUE(read.good && read.value.getRunning()) << text;
  }
  for (auto text : {"false", "n", "N", "no", "off"}) {
    Read<rpc::ServiceSpec> read(kj::str("running: ", text));
    EXPECT_TRUE(read.good && !read.value.getRunning()) << text;
  }
  EXPECT_EQ(
      kj::str(
          "line 1, column 10: running: \"true\" is quoted and therefore text; remove the quotes\n"),
      Read<rpc::ServiceSpec>("running: \"true\"").all());
  EXPECT_EQ(kj::str("line 1, column 10: running: \"maybe\" is neither true nor false\n"),
            Read<rpc::ServiceSpec>("running: maybe").all());
}

// Catches: numbers that are cut to the field's width instead of refused.
TEST(ReadYaml, ChecksTheRangeOfNumbers) {
  EXPECT_EQ(420, Read<rpc::LinkSpecSpec>("mtu: 0644").value.getMtu());
  EXPECT_EQ(UINT32_MAX, Read<rpc::LinkSpecSpec>("mtu: 0xffffffff").value.getMtu());
  EXPECT_EQ(
      kj::str("line 1, column 6: mtu: \"4294967296\" is out of range; must be 0 to 4294967295\n"),
      Read<rpc::LinkSpecSpec>("mtu: 4294967296").all());
  EXPECT_FALSE(Read<rpc::LinkSpecSpec>("mtu: -1").good);
  EXPECT_FALSE(Read<rpc::LinkSpecSpec>("mtu: 1.5").good);
  EXPECT_FALSE(Read<rpc::LinkSpecSpec>("mtu: \"1500\"").good);
  EXPECT_EQ(INT64_MIN, Read<rpc::TimeStatusSpec>("epoch: -9223372036854775808").value.getEpoch());
  EXPECT_FALSE(Read<rpc::TimeStatusSpec>("epoch: -9223372036854775809").good);
  EXPECT_FALSE(Read<rpc::TimeStatusSpec>("epoch: 9223372036854775808").good);
  EXPECT_EQ(0, Read<rpc::LinkSpecSpec>("mtu: -0").value.getMtu());
}

// Catches: a pass that ends at the first mistake, wrong places or paths, no suggestion.
TEST(ReadYaml, ReportsEveryProblemWithPlaceAndHint) {
  Read<rpc::ControlPlaneConfigSpec> read(
      "image: x\n"
      "etcdServers: https://127.0.0.1\n"
      "extraVolumes:\n"
      "  - name: a\n"
      "    readOnly: true\n"
      "    hostPath: [x]\n"
      "  -\n"
      "extraArgs:\n"
      "  a.b: {}\n"
      "serviceCIRD: x\n",
      {.file = "f.yaml"});
  EXPECT_FALSE(read.good);
  EXPECT_EQ(
      kj::str(
          "f.yaml:2:14: etcdServers: expected a list, found a single value; begin each item "
          "with \"- \"\n"
          "f.yaml:5:5: extraVolumes[0].readOnly: unknown key \"readOnly\"; did you mean "
          "\"readonly\"?\n"
          "f.yaml:6:15: extraVolumes[0].hostPath: expected a single value, found a list\n"
          "f.yaml:8:1: extraVolumes[1]: empty item; remove it or set its keys\n"
          "f.yaml:9:8: extraArgs[\"a.b\"]: expected a single value, found a mapping\n"
          "f.yaml:10:1: serviceCIRD: unknown key \"serviceCIRD\"; did you mean \"serviceCIDR\"?\n"),
      read.all());
}

// Catches: warnings that fail the document, errors that do not.
TEST(ReadYaml, UnknownKeysCanBeWarnings) {
  Read<rpc::ServiceSpec> read("runing: true\nhealthy: true\n", {.unknownKeysAreWarnings = true});
  EXPECT_TRUE(read.good);
  EXPECT_TRUE(read.value.getHealthy());
  EXPECT_EQ(
      kj::str(
          "line 1, column 1: warning: runing: unknown key \"runing\"; did you mean \"running\"?\n"),
      read.all());
}

// Catches: base64 that is read leniently; a PEM pasted without base64; key bytes in the message.
TEST(ReadYaml, TakesBase64Strictly) {
  EXPECT_EQ(kj::StringPtr("key!").asBytes(),
            Read<rpc::KeyPair>("key: a2V5IQ==").value.getKey().asReader());
  EXPECT_EQ(kj::StringPtr("key!").asBytes(),
            Read<rpc::KeyPair>("key: |\n  a2V5\n  IQ==\n").value.getKey().asReader());
  EXPECT_TRUE(Read<rpc::KeyPair>("key: \"\"").good);
  for (auto bad : {"a2V5IQ", "a2V5IQ=", "a2=5IQ==", "a2V5I*==", "===="}) {
    EXPECT_EQ(kj::str("line 1, column 6: key: not valid base64; use A-Z a-z 0-9 + / padded with = "
                      "to a multiple of 4\n"),
              Read<rpc::KeyPair>(kj::str("key: ", bad)).all());
  }
  EXPECT_EQ(
      kj::str("line 1, column 6: key: not valid base64; encode the PEM text: base64 -w0 FILE\n"),
      Read<rpc::KeyPair>("key: |\n  -----BEGIN PRIVATE KEY-----\n").all());
}

// Catches: the wrong member of an inline union, a mapping that loses its order.
TEST(ReadYaml, ChoosesTheUnionMemberByItsKeys) {
  Read<rpc::ControlPlaneConfigSpec> scheduler(
      "image: x\nextraArgs:\n    z: \"1\"\n    a: 2\nextraVolumes: []\n");
  EXPECT_TRUE(scheduler.good) << scheduler.all().cStr();
  Read<rpc::ControlPlaneConfigSpec> manager("podCIDR: x\nimage: y\n");
  EXPECT_TRUE(manager.value.isControllerManager());
  Read<rpc::RootSecretSpec> root("name: c\nca:\n  crt: Y2VydA==\n");
  EXPECT_TRUE(root.value.isK8s());
  Read<rpc::ControlPlaneConfigSpec> api("localPort: 1\nextraArgs:\n    z: \"1\"\n    a: 2\n");
  auto args = api.value.getApiServer().getExtraArgs();
  ASSERT_EQ(2, args.size());
  EXPECT_EQ(kj::StringPtr("z"), args[0].getKey());
  EXPECT_EQ(kj::StringPtr("2"), args[1].getValue());
}

// Catches: both members of a union at once.
TEST(ReadYaml, TakesOneMemberOfAUnion) {
  using Tail = rpc::Tail;
  EXPECT_EQ(5, Read<Tail>("last: 5").value.getLast());
  EXPECT_EQ(kj::str("line 2, column 1: after: only one of \"last\" and \"after\" can be set\n"),
            Read<Tail>("last: 5\nafter: x\n").all());
  Read<Tail> tail("last: 5");
  EXPECT_EQ(kj::str("last: 5\n"), yaml(tail.value.asReader()));
}

// Catches: null that resets or fails a field, an empty document that passes for a config.
TEST(ReadYaml, NullCountsAsAbsent) {
  Read<rpc::ApiCertificateSpec> read("ca:\nserver: null\nclient: ~\n");
  EXPECT_TRUE(read.good);
  EXPECT_FALSE(read.value.hasServer());
  EXPECT_EQ(kj::str("the document is empty\n"), Read<rpc::ServiceSpec>("# nothing\n").all());
  EXPECT_EQ(kj::str("line 3, column 1: expected one document, found a second one\n"),
            Read<rpc::ServiceSpec>("running: true\n---\nrunning: false\n").all());
  EXPECT_EQ(kj::str("line 1, column 1: expected a mapping (\"key: value\" lines), found a list\n"),
            Read<rpc::ServiceSpec>("- a\n").all());
}

// Catches: places that semantic checks cannot find, or that point at a sibling.
TEST(Places, FallBackToTheParent) {
  Read<rpc::ControlPlaneConfigSpec> read(
      "localPort: 1\nextraVolumes:\n  - name: a\n    hostPath: b\n");
  auto at = [&](kj::StringPtr path) {
    auto place = read.places.find(path);
    return kj::str(place.line, ":", place.column);
  };
  EXPECT_EQ(kj::str("4:5"), at("extraVolumes[0].hostPath"));
  EXPECT_EQ(kj::str("3:5"), at("extraVolumes[0].mountPath"));
  EXPECT_EQ(kj::str("2:1"), at("extraVolumes[7].name"));
  EXPECT_EQ(kj::str("0:0"), at("nothing"));
}

// --- round trips
// ------------------------------------------------------------------------------------------

class Random {
 public:
  explicit Random(unsigned seed) : engine(seed) {}
  unsigned below(unsigned limit) { return engine() % limit; }
  uint64_t bits() { return uint64_t(engine()) << 32 | engine(); }

  kj::String text() {
    static constexpr kj::StringPtr kPieces[] = {"a"_kj,
                                                "kube-apiserver"_kj,
                                                " "_kj,
                                                "  "_kj,
                                                "\n"_kj,
                                                "\t"_kj,
                                                ":"_kj,
                                                ": "_kj,
                                                "#"_kj,
                                                " #"_kj,
                                                "- "_kj,
                                                "-"_kj,
                                                "'"_kj,
                                                "\""_kj,
                                                "\\"_kj,
                                                "{"_kj,
                                                "}"_kj,
                                                "["_kj,
                                                "]"_kj,
                                                ","_kj,
                                                "&"_kj,
                                                "*"_kj,
                                                "!"_kj,
                                                "|"_kj,
                                                ">"_kj,
                                                "%"_kj,
                                                "@"_kj,
                                                "`"_kj,
                                                "?"_kj,
                                                "? "_kj,
                                                "yes"_kj,
                                                "null"_kj,
                                                "~"_kj,
                                                "1"_kj,
                                                "0x"_kj,
                                                "."_kj,
                                                "e3"_kj,
                                                "---"_kj,
                                                "..."_kj,
                                                "---\n"_kj,
                                                "\xc3\xa4"_kj,
                                                "\xe2\x80\xa8"_kj,
                                                "\xf0\x9f\x98\x80"_kj,
                                                "\xef\xbb\xbf"_kj,
                                                "\xc2\x85"_kj,
                                                "\r"_kj,
                                                "\x01"_kj,
                                                "\x7f"_kj,
                                                "<<"_kj,
                                                "="_kj,
                                                "line\n"_kj,
                                                "  indented\n"_kj};
    kj::Vector<kj::StringPtr> pieces;
    for (unsigned n = below(6); n > 0; --n) pieces.add(kPieces[below(kj::size(kPieces))]);
    return kj::strArray(pieces, "");
  }

  void fill(capnp::DynamicStruct::Builder value, unsigned depth) {
    auto schema = value.getSchema();
    for (auto field : schema.getNonUnionFields()) fillField(value, field, depth);
    auto members = schema.getUnionFields();
    if (members.size() == 0) return;
    for (unsigned attempt = 0; attempt < 20;
         ++attempt) {  // a union may have no member that is flat enough
      auto member = members[below(members.size())];
      if (member.getType().isAnyPointer() ||
          (depth == 0 && (member.getType().isStruct() || member.getType().isList())))
        continue;
      fillField(value, member, depth);
      return;
    }
  }

 private:
  std::mt19937 engine;

  void fillField(capnp::DynamicStruct::Builder value, capnp::StructSchema::Field field,
                 unsigned depth) {
    auto type = field.getType();
    bool inUnion = field.getProto().getDiscriminantValue() != capnp::schema::Field::NO_DISCRIMINANT;
    if (type.isAnyPointer() || type.isInterface()) return;
    if (!inUnion && below(4) == 0) return;
    if (type.isStruct()) {
      if (depth > 0) fill(value.init(field).as<capnp::DynamicStruct>(), depth - 1);
    } else if (type.isList()) {
      unsigned count = depth == 0 ? 0 : below(4);
      auto list = value.init(field, count).as<capnp::DynamicList>();
      for (unsigned i = 0; i < count; ++i) {
        if (list.getSchema().getElementType().isStruct()) {
          fill(list[i].as<capnp::DynamicStruct>(), depth - 1);
        } else {
          setScalar([&](capnp::DynamicValue::Reader v) { list.set(i, v); },
                    list.getSchema().getElementType());
        }
      }
    } else {
      setScalar([&](capnp::DynamicValue::Reader v) { value.set(field, v); }, type);
    }
  }

  template <typename F>
  void setScalar(F&& set, capnp::Type type) {
    switch (type.which()) {
      case capnp::schema::Type::VOID:
        set(capnp::VOID);
        break;
      case capnp::schema::Type::BOOL:
        set(below(2) == 1);
        break;
      case capnp::schema::Type::INT8:
        set(static_cast<int8_t>(bits()));
        break;
      case capnp::schema::Type::INT16:
        set(static_cast<int16_t>(bits()));
        break;
      case capnp::schema::Type::INT32:
        set(static_cast<int32_t>(bits()));
        break;
      case capnp::schema::Type::INT64:
        set(static_cast<int64_t>(bits()));
        break;
      case capnp::schema::Type::UINT8:
        set(static_cast<uint8_t>(bits()));
        break;
      case capnp::schema::Type::UINT16:
        set(static_cast<uint16_t>(bits()));
        break;
      case capnp::schema::Type::UINT32:
        set(static_cast<uint32_t>(bits()));
        break;
      case capnp::schema::Type::UINT64:
        set(bits());
        break;
      case capnp::schema::Type::FLOAT32:
        set(static_cast<float>(below(1000)) / 8);
        break;
      case capnp::schema::Type::FLOAT64:
        set(static_cast<double>(bits()) / 1e7);
        break;
      case capnp::schema::Type::ENUM: {
        auto all = type.asEnum().getEnumerants();
        set(capnp::DynamicEnum(all[below(all.size())]));
        break;
      }
      case capnp::schema::Type::TEXT: {
        auto s = text();
        set(capnp::DynamicValue::Reader(capnp::Text::Reader(s)));
        break;
      }
      case capnp::schema::Type::DATA: {
        auto s = text();
        set(capnp::DynamicValue::Reader(capnp::Data::Reader(s.asBytes())));
        break;
      }
      default:
        break;
    }
  }
};

// Catches: a limit that counts the bytes read and not the bytes written; a value within the limit
// that exceeds it.
TEST(WriteYaml, IsBoundedByBytes) {
  struct Row {
    const char* name;
    kj::Function<void(rpc::ResourceDefinitionSpec::Builder)> fill;
  };
  Row rows[] = {
      {"a list of little",
       [](auto spec) {
         auto aliases = spec.initAliases(30'000);
         for (auto i : kj::indices(aliases)) aliases.set(i, "x");
       }},
      {"a list of nothing", [](auto spec) { spec.initPrintColumns(30'000); }},
      {"text with escapes", [](auto spec) { spec.setType(kj::str(kj::repeat('\x01', 200'000))); }},
      {"text", [](auto spec) { spec.setType(kj::str(kj::repeat('x', 2'000'000))); }},
  };
  for (auto& row : rows) {
    capnp::MallocMessageBuilder message;
    auto spec = message.initRoot<rpc::ResourceDefinitionSpec>();
    row.fill(spec);
    auto text = yaml(spec.asReader());
    auto e = kj::runCatchingExceptions([&] { yaml(spec.asReader(), {.mostBytes = 1u << 20}); });
    EXPECT_TRUE(e != nullptr) << row.name << " of " << text.size() << " bytes";
    EXPECT_EQ(yaml(spec.asReader(), {.mostBytes = 64u << 20}), text) << row.name;
  }
}

template <typename T>
void roundTrips(unsigned count, Empties empties) {
  for (unsigned seed = 0; seed < count; ++seed) {
    capnp::MallocMessageBuilder message;
    auto value = message.initRoot<T>();
    Random(seed).fill(value, 3);
    WriteOptions options{.indent = 2 + seed % 3, .empties = empties};
    auto text = writeYaml(value.asReader(), options);
    Read<T> read(text);
    ASSERT_TRUE(read.good) << "seed " << seed << "\n" << text.cStr() << "\n" << read.all().cStr();
    ASSERT_EQ(text, writeYaml(read.value.asReader(), options)) << "seed " << seed;
    auto json = writeJson(value.asReader(), {.indent = seed % 5});
    Read<T> again(json);
    ASSERT_TRUE(again.good) << "seed " << seed << "\n" << json.cStr() << "\n" << again.all().cStr();
    ASSERT_EQ(writeYaml(value.asReader()), writeYaml(again.value.asReader()))
        << "seed " << seed << "\n"
        << json.cStr();
  }
}

// Catches: any text, number, list or union member that does not come back from YAML or JSON as it
// went.
TEST(RoundTrip, ReadsWhatItWrites) {
  roundTrips<rpc::Event>(400, Empties::kKeep);
  roundTrips<rpc::Event>(100, Empties::kOmit);
  roundTrips<rpc::LinkStatusSpec>(400, Empties::kKeep);
  roundTrips<rpc::RootSecretSpec::KubernetesRoot>(400, Empties::kKeep);
  roundTrips<rpc::RootSecretSpec::KubernetesRoot>(100, Empties::kOmit);
  roundTrips<capnp::schema::Value>(600, Empties::kKeep);
  roundTrips<capnp::schema::Node>(300, Empties::kKeep);
}

}  // namespace
}  // namespace talos::codec
