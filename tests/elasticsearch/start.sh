#!/usr/bin/env bash
# Starts a real Elasticsearch node for tests, on 127.0.0.1 only, and prints its URL.
#
#   start.sh [PORT] [DATADIR]     PORT 0 = any free port. Stop it with: stop.sh [DATADIR]
#
# Jars come from Maven Central (kept in ~/.m2); the assembled server is kept in $ES_FIXTURE_WORK.
# ES_FIXTURE_WORK  where to assemble (default: work/ beside this script)
# ES_HEAP          heap (default 512m)
# ES_FLAGS         further options of Java, such as -XX:TieredStopAtLevel=4 for a server that runs for long
# ES_TTL           seconds after which the server ends by itself (default 7200)
# ES_OWNER_PID     if set: the server ends when this process does
# ES_WAIT          seconds to wait for it to answer (default 180)
# ES_JOIN          for a cluster of several nodes: "begin" begins one; another node's transport address joins its
#                  cluster, to hold data (default: a single node, which no other can join)
# ES_PASSWORD      if set: with security (real Basic auth, roles and API keys); the user is admin
# ES_JAVA_HOME     JDK to use, 17 or newer (default: JAVA_HOME, else the java on PATH)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=${ES_FIXTURE_WORK:-$here/work}
port=${1:-9200}
home=$(mkdir -p "${2:-$work/run}" && cd "${2:-$work/run}" && pwd)
say() { echo "es-fixture: $*" >&2; }

jdk=${ES_JAVA_HOME:-${JAVA_HOME:-}}
java=${jdk:+$jdk/bin/}java
javac=${jdk:+$jdk/bin/}javac

ours() { [[ $(cat "/proc/$1/cmdline" 2>/dev/null | tr '\0' ' ') == *" esfixture.Main $home "* ]]; }
if [[ -s $home/pid ]] && ours "$(cat "$home/pid")"; then
  say "already running in $home (pid $(cat "$home/pid"))"; exit 1
fi

# --- assemble once; again, in a folder of its own, when the recipe changes ------------------
mkdir -p "$work"
stamp=$(find "$here/pom.xml" "$here"/src* "${BASH_SOURCE[0]}" -type f -print0 | sort -z | xargs -0 cat | sha256sum | cut -c1-12)
secure=${ES_PASSWORD:+-security}
dist=$work/dist-$stamp$secure
exec 9>"$work/.lock"
flock 9
if [[ ! -d $dist ]]; then
  say "assembling (downloads about 60 MB when ~/.m2 is empty)"
  version=$(sed -n 's:.*<es.version>\(.*\)</es.version>.*:\1:p' "$here/pom.xml")
  new=$work/new
  rm -rf "$new"
  mkdir -p "$new/classes"
  for try in 1 2 3; do
    timeout 600 mvn -B -q -f "$here/pom.xml" -Desfixture.lib="$new/lib" ${secure:+-Psecurity} package >"$work/mvn.log" 2>&1 && break
    say "mvn failed (try $try of 3):"; tail -20 "$work/mvn.log" >&2
    [[ $try == 3 ]] && exit 1
    sleep $((try * 5))
  done
  module() { # NAME CLASS: the descriptor that a packaged server has for each of its modules
    mkdir -p "$new/modules/$1"
    printf '%s\n' "name=$1" "description=$1" "version=$version" "classname=$2" \
      "elasticsearch.version=$version" "java.version=17" >"$new/modules/$1/plugin-descriptor.properties"
  }
  module transport-netty4 org.elasticsearch.transport.netty4.Netty4Plugin
  mv "$new"/lib/{transport-netty4,netty,elasticsearch-ssl-config}-*.jar "$new/modules/transport-netty4/"
  sources=("$here"/src/esfixture/*.java)
  if [[ $secure ]]; then
    # As in a packaged server: each module has its own jars, none twice on one class path.
    module x-pack-core org.elasticsearch.xpack.core.XPackPlugin
    mv "$new"/lib/{x-pack-core,x-pack-template,http,commons-,log4j-1.2-api,log4j-slf4j2,slf4j-api,unboundid}*.jar "$new/modules/x-pack-core/"
    cp "$new"/modules/transport-netty4/elasticsearch-ssl-config-*.jar "$new/modules/x-pack-core/"
    module x-pack-security org.elasticsearch.xpack.security.Security
    echo "extended.plugins=x-pack-core" >>"$new/modules/x-pack-security/plugin-descriptor.properties"
    mv "$new"/lib/{x-pack-security,nimbus,oauth2,json-smart,accessors-smart,asm-,lang-tag,content-type,jcip,es-opensaml}*.jar "$new/modules/x-pack-security/"
    cp "$new"/modules/transport-netty4/{transport,netty}*.jar "$new/modules/x-pack-security/"
    module fixture-analysis esfixture.SecurityAnalysisPlugin
    mapfile -t -O "${#sources[@]}" sources < <(find "$here/src-security" -name '*.java')
  fi
  module rest-root esfixture.RootPlugin
  "$javac" -nowarn --release 17 -cp "$new/lib/*" -d "$new/classes" "${sources[@]}"
  (
    cd "$new/classes"
    jar="${javac%javac}jar"
    "$jar" cf "$new/lib/esfixture.jar" esfixture/Main*.class
    "$jar" cf "$new/modules/rest-root/rest-root.jar" esfixture/RootPlugin*.class
    if [[ $secure ]]; then
      "$jar" cf "$new/modules/fixture-analysis/fixture-analysis.jar" esfixture/SecurityAnalysisPlugin*.class
      "$jar" cf "$new/modules/x-pack-security/opensaml-names.jar" org
    fi
  )
  mv "$new" "$dist"
fi
exec 9>&-

# --- one home per server --------------------------------------------------------------------
mkdir -p "$home"/{config,data,logs,plugins,tmp}
rm -f "$home/url"
ln -sfn "$dist/modules" "$home/modules"
name=$(basename "$home")
case ${ES_JOIN:-} in
'') discovery="discovery.type: single-node" ;;
begin) discovery=$'discovery.seed_hosts: []\ncluster.initial_master_nodes: ['"$name]" ;;
*) discovery=$'node.roles: [data]\ndiscovery.seed_hosts: ['"$ES_JOIN]" ;;
esac
cat >"$home/config/elasticsearch.yml" <<YML
cluster.name: fixture
node.name: $name
path.data: $home/data
path.logs: $home/logs
network.host: 127.0.0.1
http.port: $port
transport.port: 0
cluster.routing.allocation.disk.threshold_enabled: false
action.destructive_requires_name: false
$discovery
YML
if [[ $secure ]]; then
  cat >>"$home/config/elasticsearch.yml" <<YML
xpack.security.enabled: true
xpack.security.autoconfiguration.enabled: false
xpack.security.http.ssl.enabled: false
xpack.security.transport.ssl.enabled: false
YML
fi
cat >"$home/config/log4j2.properties" <<'LOG'
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d{ISO8601}][%-5p][%c{1.}] %m%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
LOG

ES_TMPDIR=$home/tmp setsid "$java" \
  -Xms"${ES_HEAP:-512m}" -Xmx"${ES_HEAP:-512m}" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:MaxDirectMemorySize=256m \
  -XX:-OmitStackTraceInFastThrow -XX:+ExitOnOutOfMemoryError -Xshare:auto \
  -Dfile.encoding=UTF-8 -Djava.locale.providers=CLDR -Djava.awt.headless=true -Djna.nosys=true \
  -Djava.io.tmpdir="$home/tmp" -Dio.netty.noUnsafe=true -Dio.netty.allocator.numDirectArenas=0 \
  -Dlog4j2.disable.jmx=true -Dlog4j.shutdownHookEnabled=false \
  --add-opens=java.base/java.io=ALL-UNNAMED ${ES_FLAGS:-} \
  -cp "$dist/lib/*" esfixture.Main "$home" "${ES_TTL:-7200}" \
  >"$home/logs/console.log" 2>&1 </dev/null &
pid=$!
echo "$pid" >"$home/pid"

for ((i = 0; i < ${ES_WAIT:-180} * 5; i++)); do
  if [[ -s $home/url ]]; then
    say "ready, pid $pid, log $home/logs/console.log"
    cat "$home/url"
    exit 0
  fi
  kill -0 "$pid" 2>/dev/null || break
  sleep 0.2
done
say "did not start; the end of $home/logs/console.log:"
tail -40 "$home/logs/console.log" >&2
"$here/stop.sh" "$home" || true
exit 1
