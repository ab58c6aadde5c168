"""All settings of RocketMQ's brokers, nameservers and controllers by name, and why some have no effect here.

The keys of 5.3.3 and 5.5.0: each has a setter in BrokerConfig (or its base), MessageStoreConfig, NettyServerConfig,
NettyClientConfig, AuthConfig, NamesrvConfig or ControllerConfig of at least one of the two, which
tests/interop/test_keys_java.py checks. Further keys, which people write into these files as well, are marked
`is_of_rocketmq=False`: of older versions, of parts with classes of their own, or of no version at all.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class KeyGroup(NamedTuple):
    """Settings that have no effect here, for one common reason.

    Attributes:
        why: The reason; completes "KEY has no effect here: ...".
        nothing: By key, the text that asks for nothing, which is RocketMQ's default; "false" for most.
        is_missing: Whether users may count on the effect: a program warns of any other text at its start. The rest is
            only shown by `cometmq config check`.
        is_of_rocketmq: Whether the keys are among those of RocketMQ's classes above.
    """

    why: str
    nothing: Mapping[str, str]
    is_missing: bool = False
    is_of_rocketmq: bool = True

    def asks(self, key: str, text: str) -> bool:
        """Return whether a key's value asks for an effect that users rely on and that is missing here."""
        return self.is_missing and text.strip().lower() not in ("", self.nothing[key])


def _group(
    why: str, keys: str, *, is_missing: bool = False, is_of_rocketmq: bool = True
) -> KeyGroup:
    parted = (word.partition("=") for word in keys.split())
    nothing = {key: default or "false" for key, _, default in parted}
    return KeyGroup(why, nothing, is_missing, is_of_rocketmq)


# Settings that a program here has, or warns of or refuses by name (`broker.settings.unsupported_keys`).
USED = frozenset(
    """
    accessMessageInMemoryMaxRatio aclEnable authConfigPath authenticationEnabled
    authenticationMetadataProvider authenticationProvider authenticationWhitelist authorizationEnabled
    authorizationMetadataProvider authorizationProvider authorizationWhitelist autoCreateSubscriptionGroup
    autoCreateTopicEnable bindAddress brokerClusterName brokerFastFailureEnable brokerId brokerIP1 brokerIP2
    brokerName brokerPermission brokerRole brokerTopicEnable cgColdReadThreshold channelExpiredTimeout
    cleanFileForciblyEnable cleanResourceInterval clusterName clusterTopicEnable coldCtrStrategyEnable
    coldDataFlowControlEnable commitIntervalCommitLog compressedRegister configBlackList configManagerVersion
    dataReadAheadEnable defaultMessageRequestMode defaultPopShareQueueNum defaultQueryMaxNum
    defaultTopicQueueNums deleteCommitLogFilesInterval deleteConsumeQueueFilesInterval deleteFileBatchMax
    deleteTopicWithBrokerRegistration deleteWhen disableConsumeIfConsumerReadSlowly diskMaxUsedSpaceRatio
    diskSpaceCleanForciblyRatio diskSpaceWarningLevelRatio dLegerGroup dLegerPeers dLegerSelfId duplicationEnable enableAllTopicList
    enableAutoInSyncReplicas enableConsumeQueueExt enableControllerInNamesrv enableControllerMode
    enabledAppendPropCRC enableDLegerCommitLog enableLmq enableMultiDispatch enablePropertyFilter
    enableRemoteEscape enableRetryTopicV2 enableSlaveActingMaster enableTopicList
    fetchNamesrvAddrByAddressServer fileReservedTime filterSupportRetry flushCommitLogLeastPages
    flushCommitLogThoroughInterval flushCommitLogTimed flushConsumerOffsetInterval flushDelayOffsetInterval
    flushDiskType flushIntervalCommitLog flushIntervalConsumeQueue flushLeastPagesWhenWarmMapedFile
    forceVerifyPropCRC globalColdReadThreshold haFlowControlEnable haHousekeepingInterval haListenPort
    haMasterAddress haMaxGapNotInSync haSendHeartbeatInterval haTransferBatchSize initAuthenticationUser
    innerClientAuthenticationCredentials inSyncReplicas kvConfigPath listenPort litePullMessageEnable
    longPollingEnable mappedFileSizeCommitLog mappedFileSizeConsumeQueue mappedFileSizeTimerLog maxHashSlotNum
    maxHaTransferByteInSecond maxIndexNum maxMessageSize maxMsgsNumBatch maxPopPollingSize
    maxTransferBytesOnMessageInDisk maxTransferBytesOnMessageInMemory maxTransferCountOnMessageInDisk
    maxTransferCountOnMessageInMemory messageDelayLevel messageIndexEnable messageIndexSafe messageStorePlugIn
    metricGrpcExporterIntervalInMills metricGrpcExporterTimeOutInMills metricsExporterType
    metricsGrpcExporterHeader metricsGrpcExporterTarget metricsInDelta metricsLabel
    metricsOtelCardinalityLimit metricsPromExporterHost metricsPromExporterPort migrateAuthFromV1Enabled
    minInSyncReplicas msgTraceTopicName namesrvAddr needWaitForService notifyConsumerIdsChangedEnable
    notifyMinBrokerIdChanged offsetCheckInSlave orderMessageEnable osPageCacheBusyTimeOutMills
    popConsumerKVServiceEnable popFromRetryProbability popPollingSize preferredLeaderId readOnlyCommitLogStorePaths
    recallMessageEnable redeleteHangedFileInterval regionId registerBrokerTimeoutMills
    registerNameServerPeriod rejectPullConsumerEnable rejectTransactionMessage
    retrieveMessageFromPopRetryTopicV1 returnOrderTopicConfigToBroker reviveQueueNum
    rocksdbCQDoubleWriteEnable scanNotActiveBrokerInterval serverChannelMaxIdleTimeSeconds
    serverLoadBalancerEnable shortPollingTimeMills slaveReadEnable slaveTimeout
    startAcceptSendRequestTimeStamp storePathCommitLog storePathRootDir storeReplyMessageEnable storeType
    supportActingMaster syncFlushTimeout timerFlushIntervalMs timerMaxDelaySec timerPrecisionMs
    timerRocksDBEnable timerRollWindowSlot timerStopEnqueue timerWheelEnable totalReplicas traceOn
    traceTopicEnable transactionCheckInterval transactionCheckMax transactionTimeOut transientStorePoolEnable
    transientStorePoolSize transRocksDBEnable useServerSideResetOffset useTLS waitSecondsForService
    waitTimeMillsInPullQueue warmMapedFileEnable
    """.split()  # noqa: SIM905  One per line would be pages; so below.
)

GROUPS = (
    _group(
        "requests are served by one event loop and a few threads, so there are no thread pools, queues and "
        "semaphores to size",
        """
        ackMessageThreadPoolNums ackThreadPoolQueueCapacity adminBrokerThreadPoolNums
        adminBrokerThreadPoolQueueCapacity asyncSendEnable batchDispatchRequestThreadPoolNums
        clientAsyncSemaphoreValue clientCallbackExecutorThreads clientManagerThreadPoolQueueCapacity
        clientManageThreadPoolNums clientOnewaySemaphoreValue clientRequestThreadPoolNums
        clientRequestThreadPoolQueueCapacity clientWorkerThreads consumerManagerThreadPoolQueueCapacity
        consumerManageThreadPoolNums defaultThreadPoolNums defaultThreadPoolQueueCapacity
        disableCallbackExecutor disableNettyWorkerGroup dispatchCqThreads dispatchFromSenderThread
        enableAsyncReput enableBuildConsumeQueueConcurrently enableFastChannelEventProcess
        endTransactionPoolQueueCapacity endTransactionThreadPoolNums heartbeatThreadPoolNums
        heartbeatThreadPoolQueueCapacity litePullMessageThreadPoolNums litePullThreadPoolQueueCapacity
        loadBalanceProcessorThreadPoolNums loadBalanceThreadPoolQueueCapacity maxAsyncPutMessageRequests
        maxClientEventCount processReplyMessageThreadPoolNums pullMessageThreadPoolNums
        pullThreadPoolQueueCapacity putMessageFutureThreadPoolNums putThreadPoolQueueCapacity
        queryMessageThreadPoolNums queryThreadPoolQueueCapacity recoverConcurrently recoverThreadPoolNums
        replyThreadPoolQueueCapacity sendMessageThreadPoolNums sendThreadPoolQueueCapacity
        serverAsyncSemaphoreValue serverCallbackExecutorThreads serverNettyWorkerGroupEnable
        serverOnewaySemaphoreValue serverSelectorThreads serverWorkerThreads timerGetMessageThreadNum
        timerPutMessageThreadNum timerReputServiceCorePoolSize timerReputServiceMaxPoolSize
        timerReputServiceQueueCapacity unRegisterBrokerQueueCapacity waitTimeMillsInAckQueue
        waitTimeMillsInAdminBrokerQueue waitTimeMillsInHeartbeatQueue waitTimeMillsInLitePullQueue
        waitTimeMillsInSendQueue waitTimeMillsInTransactionQueue
        """,
    ),
    _group(
        "sockets, buffers and reconnecting are not those of Netty, RocketMQ's network library",
        """
        channelNotActiveInterval clientChannelMaxIdleTimeSeconds clientCloseSocketIfTimeout
        clientPooledByteBufAllocatorEnable clientSocketRcvBufSize clientSocketSndBufSize connectTimeoutMillis
        enableNetWorkFlowControl enableReconnectForGoAway enableShutdownGracefully highSpeedMode
        maxReconnectIntervalTimeSeconds processReadEvent scanAvailableNameSrv sendHeartbeatTimeoutMillis
        serverPooledByteBufAllocatorEnable serverSocketBacklog serverSocketRcvBufSize serverSocketSndBufSize
        shutdownWaitTimeSeconds transferMsgByHeap useEpollNativeSelector writeBufferHighWaterMark
        writeBufferLowWaterMark
        """,
    ),
    _group(
        "the steps in which files are locked, mapped, written and read are not those of RocketMQ's store",
        """
        accessMessageInMemoryHotRatio autoMessageVersionOnTopicLen cleanSwapedMapInterval coldDataScanEnable
        commitCommitLogLeastPages commitCommitLogThoroughInterval commitLogForceSwapMapInterval
        commitLogSwapMapInterval commitLogSwapMapReserveFileNum correctLogicMinOffsetForceInterval
        correctLogicMinOffsetSleepInterval debugLockEnable destroyMapedFileIntervalForcibly
        disappearTimeAfterStart dispatchCqCacheNum enableRunningFlagsInFlush fastFailIfNoBufferInStorePool
        flushConsumeQueueLeastPages flushConsumeQueueThoroughInterval logicalDiskSpaceCleanForciblyThreshold
        logicQueueForceSwapMapInterval logicQueueSwapMapInterval logicQueueSwapMapReserveFileNum
        mappedFileSwapEnable mapperFileSizeBatchConsumeQueue maxBatchDeleteFilesNum maxConsumeQueueScan
        maxFilterMessageSize maxTopicLength pullBatchMaxMessageCount putConsumeQueueDataByFileChannel
        putMessageTimeout putMsgIndexHightWater readUnCommitted searchBcqByCacheEnable sharedByteBufferNum
        spinLockCollisionRetreatOptimalDegree topicQueueLockNum travelCqFileNumWhenGetMessage useABSLock
        usePIDColdCtrStrategy useReentrantLockWhenPutMessage wakeCommitWhenPutMessage wakeFlushWhenPutMessage
        writeWithoutMmap
        """,
    ),
    _group(
        "recovery always checks each record, from the last place that is certain",
        """
        checkCommitLogOffsetOnRecover checkCRCOnRecover commitLogRecoverMaxNum enableAcceleratedRecovery
        enableLogConsumeQueueRepeatedlyBuildWhenRecover maxRecoveryCommitlogFiles recheckReputOffsetFromCq
        """,
    ),
    _group(
        "it only tells where plain_acl.yml is, in its folder conf; nothing else is read there",
        """
        rocketmqHome
        """,
    ),
    _group(
        "RocketMQ 5.3.3 has no such setting either, and ignores it; these files are always below storePathRootDir",
        """
        abortFile storeCheckpoint storePathConsumeQueue storePathIndex
        """,
        is_of_rocketmq=False,
    ),
    _group(
        "RocketMQ prints it (mqbroker -p), but no file sets it there either",
        """
        isBrokerContainer isInBrokerContainer isProcessReadEvent isScanAvailableNameSrv timerCheckMetricsWhen
        timerEnableDisruptor timerWarmEnable
        """,
        is_of_rocketmq=False,
    ),
    _group(
        "only versions before RocketMQ 5.3.3 have it",
        """
        batchWriteKvCqSize commercialBigCount commercialEnable commercialTimerCount commercialTransCount
        enableTransparentRetry filterServerNums maxDelayTime memTableFlushInterval
        transferMetadataJsonToRocksdb transferOffsetJsonToRocksdb
        """,
        is_of_rocketmq=False,
    ),
    _group(
        "the program reads the file that its option -c names, and keeps what is changed while it runs in "
        "FILE.overlay beside it",
        """
        brokerConfigPath clusterTest configName configStorePath productEnvName
        """,
    ),
    _group(
        "it is only used by DLedger, whose protocol and files a group (enableDLegerCommitLog) does not use here",
        """
        enableBatchPush storePathDLedgerCommitLog
        """,
    ),
    _group(
        "it is only used by controllers (enableControllerMode), which are not supported yet",
        """
        allAckInSyncStateSet asyncLearner brokerElectionPriority brokerHeartbeatInterval
        brokerNotActiveTimeoutMillis checkSyncStateSetPeriod controllerAddr controllerDLegerGroup
        controllerDLegerPeers controllerDLegerSelfId controllerHeartBeatTimeoutMills
        controllerRequestThreadPoolQueueCapacity controllerStorePath controllerThreadPoolNums controllerType
        electMasterMaxRetryCount enableElectUncleanMaster fetchControllerAddrByDnsLookup
        haMaxTimeSlaveNotCatchup jraftConfig mappedFileSize maxChecksumRange notifyBrokerRoleChanged
        scanInactiveMasterInterval storePathBrokerIdentity storePathEpochFile syncBrokerMetadataPeriod
        syncControllerMetadataPeriod syncFromLastFile
        """,
    ),
    _group(
        "it is only used by controllers (enableControllerMode), which are not supported yet",
        """
        jRaftControllerRPCAddr jRaftElectionTimeoutMs jRaftGroupId jRaftInitConf jRaftScanWaitTimeoutMs
        jRaftServerId jRaftSnapshotIntervalSecs
        """,
        is_of_rocketmq=False,
    ),
    _group(
        "it is only used where a slave acts as master (enableSlaveActingMaster) or in a BrokerContainer, which "
        "are not supported yet",
        """
        cleanOfflineBrokerInterval forwardTimeout inBrokerContainer skipPreOnline syncBrokerMemberGroupPeriod
        """,
    ),
    _group(
        "it is only used by a BrokerContainer, which is not supported yet",
        """
        updateNamesrvAddrInterval
        """,
        is_of_rocketmq=False,
    ),
    _group(
        "a slave has its own rules for copying the log",
        """
        maxSlaveResendLength syncMasterFlushOffsetWhenStartup
        """,
    ),
    _group(
        "it is only used with RocksDB, which this program neither reads nor writes",
        """
        appendTopicForTimerDeleteKey bottomMostCompressionTypeForConsumeQueueStore
        cleanRocksDBDirtyCQIntervalMin combineAssignOffsetCQType combineCQEnableCheckSelf
        combineCQLoadingCQTypes combineCQMaxExtraSearchCommitLogFiles combineCQPreferCQType
        combineCQUseRocksdbForLmq enableRocksDBLog indexFileReadEnable indexFileWriteEnable
        iteratorWhenUseRocksdbConsumeQueue maxRocksDBIndexQueryDays memTableFlushIntervalMs
        persistConsumerOffsetIncrementally popConsumerFSServiceInit popConsumerKVServiceInit
        popConsumerKVServiceLog realTimePersistRocksDBConfig rocksdbCompressionType rocksdbFlushWalFrequency
        rocksdbWalFileRollingThreshold statRocksDBCQIntervalSec timerRecallToTimelineEnable
        timerRecallToTimeWheelEnable timerRocksDBPrecisionMs timerRocksDBRollIntervalHours
        timerRocksDBRollMaxTps timerRocksDBRollRangeHours timerRocksDBStopScan timerRocksDBTimeExpiredMaxTps
        transactionCheckRocksdbCoreThreads transactionCheckRocksdbMaxThreads
        transactionCheckRocksdbQueueCapacity transWriteOriginTransHalfEnable useSeparateStorePathForRocksdbCQ
        useSingleRocksDBForAllConfigs
        """,
    ),
    _group(
        "it is only used by tiered storage (messageStorePlugIn), which is not supported yet",
        """
        commitLogRollingInterval commitLogRollingMinimumSize objectStoreAccessKey objectStoreBucket
        objectStoreEndpoint objectStoreSecretKey readAheadCacheEnable readAheadCacheExpireDuration
        readAheadCacheSizeThresholdRate readAheadMessageCountThreshold readAheadMessageSizeThreshold
        recordGetMessageResult tieredBackendServiceProvider tieredMetadataServiceProvider tieredStorageLevel
        tieredStoreCommitLogMaxSize tieredStoreConsumeQueueMaxSize tieredStoreCrcCheckEnable
        tieredStoreDeleteFileEnable tieredStoreDeleteFileInterval tieredStoreFilePath
        tieredStoreFileReservedTime tieredStoreGroupCommit tieredStoreGroupCommitCount
        tieredStoreGroupCommitSize tieredStoreGroupCommitTimeout tieredStoreIndexFileMaxHashSlotNum
        tieredStoreIndexFileMaxIndexNum tieredStoreMaxGroupCommitCount tieredStoreMaxPendingLimit
        """,
        is_of_rocketmq=False,
    ),
    _group(
        "compaction of topics is not supported yet; a topic that asks for it is refused",
        """
        compactionCqMappedFileSize compactionMappedFileSize compactionScheduleInternal compactionThreadNum
        enableCompaction maxOffsetMapSize
        """,
    ),
    _group(
        "pop keeps its state in a journal of its own, which has no such steps",
        """
        appendAckAsync appendCkAsync enableNotifyAfterPopOrderLockRelease enableNotifyBeforePopCalculateLag
        enablePopBatchAck enablePopBufferMerge enableSkipLongAwaitingAck initPopOffsetByCheckMsgInMem
        popCkMaxBufferSize popCkOffsetMaxQueueSize popCkStayBufferTime popCkStayBufferTimeOut
        popInflightMessageThreshold popLongPollingForceNotifyInterval popPollingMapExpireTimeSeconds
        popPollingMapSize popReviveConcurrency popReviveMaxAttemptTimes popReviveMaxReturnSizePerRead
        popReviveSkipIfGroupAbsent reviveAckWaitMs reviveInterval reviveMaxSlow reviveScanTime
        skipWhenCKRePutReachMaxTimes
        """,
    ),
    _group(
        "timed and delayed messages and transactions are kept in RocketMQ's files, by steps that need no such "
        "setting",
        """
        allowRecallWhenBrokerNotWriteable enableScheduleAsyncDeliver scheduleAsyncDeliverMaxPendingLimit
        scheduleAsyncDeliverMaxResendNum2Blocked timerColdDataCheckIntervalMs timerEnableRetryUntilSuccess
        timerInterceptDelayLevel timerSkipUnknownError timerWheelSnapshotFlush timerWheelSnapshotIntervalMs
        transactionOpBatchInterval transactionOpMsgMaxSize
        """,
    ),
    _group(
        "such statistics and log lines are not written; /metrics has what is counted",
        """
        accountStatsEnable accountStatsPrintZeroValues autoDeleteUnusedStats commercialBaseCount
        commercialSizePerMsg diskFallRecorded enableConnectionMetrics enableDetailStat enableLagAndDlqMetrics
        enableLmqStats enableMessageStoreMetrics enablePopLog enablePopMetrics enableRemotingMetrics
        enableRequestMetrics enableScheduleMessageStats enableStatsMetrics enableTransactionMetrics
        estimateAccumulation flushConsumerOffsetHistoryInterval isolateLogEnable maxStatsIdleTimeInMinutes
        metricLoggingExporterIntervalInMills metricsExportBatchMaxDataPoints printChannelGroups
        printChannelGroupsMinNum sampleCountThreshold sampleSteps timerEnableCheckMetrics
        timerMetricSmallThreshold timerProgressLogIntervalMs transactionMetricFlushInterval
        useStaticSubscription
        """,
    ),
    _group(
        "topics and offsets are registered and copied when they change, by rules that need no such setting",
        """
        compatibleWithOldNameSrv consumerOffsetUpdateVersionStep delayOffsetUpdateVersionStep
        enableSingleTopicRegister enableSplitMetadata enableSplitRegistration fetchNamesrvAddrInterval
        forceRegister loadBalancePollNameServerInterval splitMetadataSize splitRegistrationSize
        updateNameServerAddrPeriod
        """,
    ),
    _group(
        "filters are evaluated for each message, without Bloom filters",
        """
        bitMapLengthConsumeQueueExt enableCalcFilterBitMap expectConsumerNumUseFilter filterDataCleanTimeSpan
        mappedFileSizeConsumeQueueExt maxErrorRateOfBloomFilter maxMessageFilterNumForNotification
        useMessageFilterForNotification
        """,
    ),
    _group(
        "topics, groups, members, locks and broadcast offsets are kept by rules that need no such setting",
        """
        broadcastOffsetExpireMaxSecond broadcastOffsetExpireSecond clearRetryTopicWhenDeleteTopic
        consumerFallbehindThreshold enableBroadcastOffsetStore enableCleanExpiredOffset enableCreateSysGroup
        enableMixedMessageType enableRegisterProducer lockInStrictMode maxLmqConsumeQueueNum
        realTimeNotifyConsumerChange subscriptionExpiredTimeout validateSystemTopicWhenUpdateTopic
        """,
    ),
    _group(
        "users and policies are in memory, so there are no caches of them; there is one way to check them",
        """
        aclCacheExpiredSecond aclCacheMaxNum aclCacheRefreshSecond authenticationStrategy
        authorizationStrategy statefulAuthenticationCacheExpiredSecond statefulAuthenticationCacheMaxNum
        statefulAuthorizationCacheExpiredSecond statefulAuthorizationCacheMaxNum userCacheExpiredSecond
        userCacheMaxNum userCacheRefreshSecond
        """,
    ),
    _group(
        "it is only used by lite topics of RocketMQ 5.5 (enableLiteEventMode), which are not supported yet",
        """
        enableLiteEventMode enableLitePopLog liteEventCheckInterval liteEventFullDispatchDelayTime
        liteEventFullDispatchDelayTimeForWildcardGroup liteLagCountMetricsEnable liteLagLatencyCollectEnable
        liteLagLatencyMetricsEnable liteLagLatencyTopK liteSubscriptionCheckInterval
        liteSubscriptionCheckTimeoutMills liteTtlCheckInterval maxLiteSubscriptionCount minLiteTTl
        """,
    ),
    _group(
        "it is only used for messages with a priority of RocketMQ 5.5, which are not supported yet",
        """
        popFromRetryProbabilityForPriority priorityOrderAsc useSeparateRetryQueue
        """,
    ),
    _group(
        "the number of popped messages without an acknowledgement has no limit",
        """
        enablePopMessageThreshold
        """,
        is_missing=True,
    ),
    _group(
        "a popped message of a retry topic has the name of its original topic",
        """
        popResponseReturnActualRetryTopic
        """,
        is_missing=True,
    ),
    _group(
        "a slot of the timer wheel has no limit of messages",
        """
        timerCongestNumEachSlot=2147483647
        """,
        is_missing=True,
    ),
    _group(
        "a disk that several brokers share is looked at as a whole; set diskMaxUsedSpaceRatio accordingly",
        """
        replicasPerDiskPartition=1
        """,
        is_missing=True,
    ),
    _group(
        "a name in namesrvAddr is one nameserver; name each address of the nameservers, separated by ;",
        """
        fetchNameSrvAddrByDnsLookup
        """,
        is_missing=True,
    ),
    _group(
        "connections are made without a proxy",
        """
        socksProxyConfig={}
        """,
        is_missing=True,
    ),
    _group(
        "the number of light queues has no quota",
        """
        enableLmqQuota
        """,
        is_missing=True,
    ),
    _group(
        "the index is kept in RocketMQ's files, not in RocksDB",
        """
        indexRocksDBEnable
        """,
        is_missing=True,
    ),
    _group(
        "it is a setting of RocketMQ's gRPC proxy (rmq-proxy.json); a broker serves gRPC clients itself (grpcServerPort)",
        """
        aclCacheExpiredSeconds aclCacheRefreshSeconds channelExpiredInSeconds consumerProcessorThreadPoolNums
        consumerProcessorThreadPoolQueueCapacity contextExpiredInSeconds defaultInvisibleTimeMills
        detectInterval detectTimeout enableAclRpcHookForClusterMode enableBatchAck enableGrpcEpoll
        enableMessageBodyEmptyCheck enablePrintJstack enableProxyAutoRenew enableRemotingLocalProxyGrpc
        enableTopicMessageTypeCheck grpcBossLoopNum grpcClientConsumerLongPollingBatchSize
        grpcClientConsumerMaxLongPollingTimeoutMillis grpcClientConsumerMinLongPollingTimeoutMillis
        grpcClientIdleTimeMills grpcClientManagerThreadPoolNums grpcClientManagerThreadQueueCapacity
        grpcClientProducerBackoffInitialMillis grpcClientProducerBackoffMaxMillis
        grpcClientProducerBackoffMultiplier grpcClientProducerMaxAttempts grpcConsumerThreadPoolNums
        grpcConsumerThreadQueueCapacity grpcMaxInboundMessageSize grpcProducerThreadPoolNums
        grpcProducerThreadQueueCapacity grpcProxyRelayRequestTimeoutInSeconds grpcRouteThreadPoolNums
        grpcRouteThreadQueueCapacity grpcShutdownTimeSeconds grpcThreadPoolNums
        grpcThreadPoolQueueCapacity grpcTransactionThreadPoolNums grpcTransactionThreadQueueCapacity
        grpcWorkerLoopNum heartbeatSyncerThreadPoolNums heartbeatSyncerThreadPoolQueueCapacity
        heartbeatSyncerTopicClusterName heartbeatSyncerTopicName invisibleTimeMillisWhenClear
        localProxyConnectTimeoutMs localServeAddr lockTimeoutMsInHandleGroup longPollingReserveTimeInMillis
        maxDelayTimeMills maxInvisibleTimeMills maxMessageGroupSize maxRenewRetryTimes
        maxTransactionRecoverySecond maxUserPropertySize metadataThreadPoolNums
        metadataThreadPoolQueueCapacity metricCollectorAddress metricCollectorMode
        minInvisibleTimeMillsForRecv namesrvDomain namesrvDomainSubgroup printJstackInMillis
        printThreadPoolStatusInMillis producerProcessorThreadPoolNums producerProcessorThreadPoolQueueCapacity
        proxyClusterName proxyMode proxyName remotingAccessAddr remotingDefaultThreadPoolNums
        remotingDefaultThreadPoolQueueCapacity remotingHeartbeatThreadPoolNums
        remotingHeartbeatThreadPoolQueueCapacity remotingListenPort remotingPullMessageThreadPoolNums
        remotingPullThreadPoolQueueCapacity remotingSendMessageThreadPoolNums
        remotingSendThreadPoolQueueCapacity remotingTopicRouteThreadPoolNums
        remotingTopicRouteThreadPoolQueueCapacity remotingUpdateOffsetThreadPoolNums
        remotingUpdateOffsetThreadPoolQueueCapacity remotingWaitTimeMillsInDefaultQueue
        remotingWaitTimeMillsInHeartbeatQueue remotingWaitTimeMillsInPullQueue
        remotingWaitTimeMillsInSendQueue remotingWaitTimeMillsInTopicRouteQueue
        remotingWaitTimeMillsInUpdateOffsetQueue renewAheadTimeMillis renewMaxThreadPoolNums
        renewMaxTimeMillis renewSchedulePeriodMillis renewThreadPoolNums renewThreadPoolQueueCapacity
        rocketMQClusterName rocketmqMQClientNum sendLatencyEnable startDetectorEnable
        subscriptionGroupConfigCacheExpiredSeconds subscriptionGroupConfigCacheMaxNum
        subscriptionGroupConfigCacheRefreshSeconds tlsCertPath tlsKeyPath tlsTestModeEnable
        topicConfigCacheExpiredSeconds topicConfigCacheMaxNum topicConfigCacheRefreshSeconds
        topicRouteServiceCacheExpiredSeconds topicRouteServiceCacheMaxNum topicRouteServiceCacheRefreshSeconds
        topicRouteServiceThreadPoolNums topicRouteServiceThreadPoolQueueCapacity transactionDataExpireMillis
        transactionDataExpireScanPeriodMillis transactionDataMaxNum transactionDataMaxWaitClearMillis
        transactionHeartbeatBatchNum transactionHeartbeatPeriodSecond transactionHeartbeatThreadPoolNums
        transactionHeartbeatThreadPoolQueueCapacity useDelayLevel useEndpointPortFromRequest
        userCacheExpiredSeconds userCacheRefreshSeconds userPropertyMaxNum
        """,
        is_of_rocketmq=False,
    ),
)

# The group of each key without effect.
WITHOUT_EFFECT: Mapping[str, KeyGroup] = MappingProxyType(
    {key: group for group in GROUPS for key in group.nothing}
)
ROCKETMQ_KEYS = USED.union(*(group.nothing for group in GROUPS if group.is_of_rocketmq))
_ELSEWHERE = "this program has no such setting; it belongs to another program of RocketMQ, or to a missing feature"


def why_without_effect(key: str) -> str | None:
    """Return why a setting of RocketMQ has no effect in a program that does not have it; None for an unknown key."""
    group = WITHOUT_EFFECT.get(key)
    if group is not None:
        return group.why
    return _ELSEWHERE if key in USED else None
