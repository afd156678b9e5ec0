// An API server of Kubernetes in the test's process, as far as our client uses one: discovery, get,
// list in pages, create, patch, approve, delete, evict and watch. Objects are stored as given; the
// server validates only that an object has a name and that its namespace exists. An evicted pod is
// marked as ending, and stays until it is dropped.
#pragma once

#include <kj/compat/http.h>
#include <kj/compat/url.h>
#include <kj/debug.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/signal.h"
#include "common/kube/kube-client.h"
#include "common/net/http-header-names.h"

namespace talos::kube {

class ModelKube final : public kj::HttpService {
 public:
  struct Reply {
    unsigned status = 200;
    std::string body;
    std::string retryAfter;
  };
  struct Asked {
    std::string method, path;  // with its query
    std::string contentType, authorization;
    Json body;
  };

  explicit ModelKube(kj::Timer& timer) : timer(timer), server(timer, headers.table(), *this) {}

  std::vector<Asked> asked;
  // Answers instead of the model, unless it returns nullptr.
  std::function<kj::Maybe<Reply>(const Asked&)> instead = [](auto&) { return nullptr; };
  unsigned connections = 0;
  bool strictNamespaces = false;     // an object's namespace must exist
  std::string policyVersion = "v1";  // version of evictions; empty if the server has none

  void addKind(Resource resource) {
    kinds[toStd(pathOf(GroupVersion{kj::str(resource.group), kj::str(resource.version)}))].add(
        kj::mv(resource));
  }
  void addUsualKinds() {
    addKind(coreResource("pods", "Pod"));
    addKind(coreResource("nodes", "Node", false));
    addKind(coreResource("namespaces", "Namespace", false));
    addKind(coreResource("configmaps", "ConfigMap"));
    addKind(coreResource("secrets", "Secret"));
    addKind(appsResource("daemonsets", "DaemonSet"));
    addKind(appsResource("replicasets", "ReplicaSet"));
  }
  // `path` is the path of the object.
  void put(kj::StringPtr path, Json object) {
    auto key = toStd(path);
    bool fresh = objects.count(key) == 0;
    object["metadata"]["resourceVersion"] = std::to_string(++version);
    objects[key] = object;
    events.push_back({key, fresh ? "ADDED" : "MODIFIED", kj::mv(object)});
    changed.raise();
  }
  void drop(kj::StringPtr path) {
    auto found = objects.find(toStd(path));
    KJ_REQUIRE(found != objects.end(), path);
    found->second["metadata"]["resourceVersion"] = std::to_string(++version);
    events.push_back({found->first, "DELETED", found->second});
    objects.erase(found);
    changed.raise();
  }
  kj::Maybe<Json&> find(kj::StringPtr path) {
    auto found = objects.find(toStd(path));
    if (found == objects.end()) return nullptr;
    return found->second;
  }
  size_t count() const { return objects.size(); }

  // Returns a function that connects to the server in memory.
  KubeDial dialer() {
    return [this]() -> kj::Promise<kj::Own<kj::AsyncIoStream>> {
      ++connections;
      auto pipe = kj::newTwoWayPipe();
      serving.add(server.listenHttp(kj::mv(pipe.ends[0])));
      return kj::mv(pipe.ends[1]);
    };
  }
  kj::Promise<void> serve(kj::Own<kj::AsyncIoStream> stream) {
    ++connections;
    return server.listenHttp(kj::mv(stream));
  }
  static KubeAccess access() {
    KubeAccess access;
    access.host = kj::str("model");
    access.port = 6443;
    access.token = pki::Pem(kj::str("secret-token"));
    return access;
  }

  kj::Promise<void> request(kj::HttpMethod method, kj::StringPtr url, const kj::HttpHeaders& in,
                            kj::AsyncInputStream& body, Response& response) override {
    Asked one;
    one.method = toStd(kj::str(method));
    one.path = toStd(url);
    one.contentType = toStd(in.get(kj::HttpHeaderId::CONTENT_TYPE).orDefault(""));
    one.authorization = toStd(in.get(headers.authorization).orDefault(""));
    auto text = co_await body.readAllText(4u << 20);
    if (text.size() > 0) one.body = readJson(text, "the request");
    asked.push_back(one);
    auto place = kj::Url::parse(url, kj::Url::HTTP_REQUEST);
    auto given = instead(one);
    KJ_IF_MAYBE (reply, given) {
      co_return co_await send(response, *reply);
    }
    if (queryOf(place, "watch") == "true") co_return co_await watch(place, response);
    co_return co_await send(response, answer(one, place));
  }

 private:
  struct Event {
    std::string path, type;
    Json object;
  };
  struct Errors final : kj::TaskSet::ErrorHandler {
    void taskFailed(kj::Exception&&) override {}  // the client closed the connection
  };
  struct Headers : public HttpHeaderNames {
    kj::HttpHeaderId authorization = add("Authorization"), retryAfter = add("Retry-After");
  };
  kj::Timer& timer;
  Headers headers;
  Errors errors;
  kj::HttpServer server;
  kj::TaskSet serving{errors};
  std::map<std::string, kj::Vector<Resource>> kinds;
  std::map<std::string, Json> objects;
  std::vector<Event> events;
  Signal changed;
  uint64_t version = 100;

  static std::string toStd(kj::StringPtr text) { return {text.begin(), text.size()}; }
  static std::string queryOf(const kj::Url& url, kj::StringPtr key) {
    for (auto& pair : url.query) {
      if (pair.name == key) return toStd(pair.value);
    }
    return "";
  }
  static std::string pathOfUrl(const kj::Url& url) {
    std::string path;
    for (auto& part : url.path) path += "/" + toStd(part);
    return path;
  }
  static Reply status(unsigned code, std::string reason, std::string message) {
    Json body{{"kind", "Status"}, {"code", code}, {"reason", reason}, {"message", message}};
    return {code, body.dump(), ""};
  }

  kj::Promise<void> send(Response& response, const Reply& reply) {
    kj::HttpHeaders out(headers.table());
    if (!reply.retryAfter.empty()) out.set(headers.retryAfter, kj::str(reply.retryAfter.c_str()));
    auto stream = response.send(reply.status, "Text", out, reply.body.size());
    co_await stream->write(reply.body.data(), reply.body.size());
  }

  // Returns the collection of a path: the path without its last part.
  static std::string parentOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

  bool isCollection(const std::string& path) const {
    for (auto& [base, resources] : kinds) {
      for (auto& resource : resources) {
        auto end = "/" + toStd(resource.plural);
        if (path.starts_with(base) && path.ends_with(end)) return true;
      }
    }
    return false;
  }
  // Returns true if the path is in the collection, which may be of all namespaces: /api/v1/pods has
  // /api/v1/namespaces/x/pods/y.
  bool isIn(const std::string& collection, const std::string& path) const {
    auto parent = parentOf(path);
    if (parent == collection) return true;
    auto slash = collection.rfind('/');
    return parent.starts_with(collection.substr(0, slash) + "/namespaces/") &&
           parent.ends_with(collection.substr(slash));
  }
  static bool hasLabel(const Json& object, const std::string& selector) {
    if (selector.empty()) return true;
    auto equals = selector.find('=');
    auto value = textAt(object, {"metadata", "labels", selector.substr(0, equals).c_str()});
    return toStd(value) == selector.substr(equals + 1);
  }
  static bool hasField(const Json& object, const std::string& selector) {
    if (selector.empty()) return true;
    auto equals = selector.find('=');
    Json::json_pointer at("/" + selector.substr(0, equals));
    std::string pointer = at.to_string();
    for (auto& c : pointer) c = c == '.' ? '/' : c;
    auto value = object.value(Json::json_pointer(pointer), std::string());
    return value == selector.substr(equals + 1);
  }

  Reply answer(const Asked& one, const kj::Url& url) {
    auto path = pathOfUrl(url);
    auto kind = kinds.find(path);
    if (kind != kinds.end()) return discovery(kind->second);
    if (one.method == "POST" && path.ends_with("/eviction")) return evict(one, parentOf(path));
    if (one.method == "POST") return create(one, path);
    if (one.method == "PATCH" && path.ends_with("/approval")) path = parentOf(path);
    if (isCollection(path)) return list(url, path);
    auto found = objects.find(path);
    if (found == objects.end()) return status(404, "NotFound", "\"" + path + "\" not found");
    if (one.method == "DELETE") {
      for (auto key : {"uid", "resourceVersion"}) {
        auto only = textAt(one.body, {"preconditions", key});
        if (only.size() > 0 && only != textAt(found->second, {"metadata", key})) {
          return status(409, "Conflict", std::string("the object has another ") + key);
        }
      }
      drop(path.c_str());
      return {200, "{}", ""};
    }
    if (one.method == "PATCH") {
      auto object = found->second;
      object.merge_patch(one.body);
      if (queryOf(url, "dryRun") == "All") return {200, object.dump(), ""};
      put(path.c_str(), object);
    }
    return {200, objects[path].dump(), ""};
  }

  Reply discovery(const kj::Vector<Resource>& resources) {
    Json list = Json::array();
    if (!policyVersion.empty()) {
      list.push_back({{"name", "pods/eviction"},
                      {"kind", "Eviction"},
                      {"group", "policy"},
                      {"version", policyVersion}});
    }
    for (auto& resource : resources) {
      list.push_back({{"name", toStd(resource.plural)},
                      {"kind", toStd(resource.kind)},
                      {"namespaced", resource.namespaced}});
    }
    return {200, Json{{"kind", "APIResourceList"}, {"resources", list}}.dump(), ""};
  }

  Reply evict(const Asked& one, const std::string& path) {
    auto found = objects.find(path);
    if (found == objects.end()) return status(404, "NotFound", "\"" + path + "\" not found");
    auto object = found->second;
    if (textAt(object, {"metadata", "uid"}) !=
        textAt(one.body, {"deleteOptions", "preconditions", "uid"})) {
      return status(409, "Conflict", "the UID in the precondition is another one");
    }
    object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
    put(path.c_str(), object);
    return {201, R"({"kind":"Status","status":"Success"})", ""};
  }

  Reply create(const Asked& one, const std::string& path) {
    auto name = toStd(textAt(one.body, {"metadata", "name"}));
    if (name.empty()) return status(422, "Invalid", "metadata.name: Required value");
    auto at = path + "/" + name;
    auto spaces = path.find("/namespaces/");
    if (strictNamespaces && spaces != std::string::npos) {
      auto space = path.substr(spaces + 12, path.rfind('/') - spaces - 12);
      if (objects.count("/api/v1/namespaces/" + space) == 0) {
        return status(404, "NotFound", "namespaces \"" + space + "\" not found");
      }
    }
    if (objects.count(at) > 0) return status(409, "AlreadyExists", name + " already exists");
    put(at.c_str(), one.body);
    return {201, objects[at].dump(), ""};
  }

  Reply list(const kj::Url& url, const std::string& path) {
    auto limitText = queryOf(url, "limit");
    size_t limit = limitText.empty() ? 1000000 : std::stoul(limitText);
    auto after = queryOf(url, "continue");
    Json items = Json::array();
    std::string next;
    for (auto& [key, object] : objects) {
      if (!isIn(path, key) || (!after.empty() && key <= after)) continue;
      if (!hasLabel(object, queryOf(url, "labelSelector"))) continue;
      if (!hasField(object, queryOf(url, "fieldSelector"))) continue;
      if (items.size() == limit) {
        next = items.empty() ? "" : lastKey(path, items);
        break;
      }
      items.push_back(object);
    }
    Json meta{{"resourceVersion", std::to_string(version)}, {"continue", next}};
    return {200, Json{{"kind", "List"}, {"metadata", meta}, {"items", items}}.dump(), ""};
  }
  std::string lastKey(const std::string& path, const Json& items) {
    auto& last = items.back();
    for (auto& [key, object] : objects) {
      if (isIn(path, key) && object == last) return key;
    }
    return "";
  }

  kj::Promise<void> watch(const kj::Url& url, Response& response) {
    auto path = pathOfUrl(url);
    auto from = std::stoull("0" + queryOf(url, "resourceVersion"));
    auto field = queryOf(url, "fieldSelector");
    kj::HttpHeaders out(headers.table());
    auto stream = response.send(200, "OK", out);
    size_t next = 0;
    for (;;) {
      auto change = changed.next();
      for (; next < events.size(); ++next) {
        auto& event = events[next];
        auto at = std::stoull("0" + toStd(textAt(event.object, {"metadata", "resourceVersion"})));
        if (!isIn(path, event.path) || at <= from) continue;
        if (!hasField(event.object, field)) continue;
        auto line = Json{{"type", event.type}, {"object", event.object}}.dump() + "\n";
        co_await stream->write(line.data(), line.size());
      }
      co_await change;
    }
  }
};

}  // namespace talos::kube
